"""Waiting in virtual time, without waiting for ever."""

from __future__ import annotations

import asyncio

from iworkflow.core.memory.client import MemoryClientEngine
from iworkflow.core.memory.clock import Bell, VirtualClock
from iworkflow.core.memory.store import MemoryStore, Run
from iworkflow.core.port import Operation, Outcome
from iworkflow.core.testing.fleet import Fleet


class Stuck(AssertionError):
    """A run is waited for that can never go on: nothing is left that could happen."""


class PatientEngine(MemoryClientEngine):
    """The client engine of a test: a wait that can never end raises `Stuck`."""

    def __init__(self, store: MemoryStore, clock: VirtualClock, fleet: Fleet) -> None:
        super().__init__(store)
        self._store = store
        self._clock = clock
        self._fleet = fleet
        self._still = Bell()
        clock.stuck = self._still.ring

    async def result(self, workflow_id: str) -> Outcome:
        """Wait for the outcome.

        Raises:
            Stuck: there will be none.
            BaseException: what broke a worker.
        """
        outcome = asyncio.ensure_future(super().result(workflow_id))
        still = asyncio.ensure_future(self._stand_still())
        try:
            await asyncio.wait({outcome, still}, return_when=asyncio.FIRST_COMPLETED)
            if not outcome.done():
                raise self._fleet.broken() or Stuck(self._why(workflow_id))
            return outcome.result()
        finally:
            outcome.cancel()
            still.cancel()

    async def pass_time(self, until: float) -> None:
        """Let time pass until a moment, and everything happen that happens by then."""
        if self._clock.limit is not None:
            raise RuntimeError("time is passing already: only one advance() or settle() at a time")
        self._clock.limit = until
        try:
            with self._clock.waiting():
                await self._still.wait(self._clock)
            self._clock.move(until)
        finally:
            self._clock.limit = None
            self._clock.kick()

    async def _stand_still(self) -> None:
        while True:
            await self._still.wait(self._clock)
            if self._clock.limit is None:
                return

    def _why(self, workflow_id: str) -> str:
        run = self._store.find(workflow_id)
        return f"flow {workflow_id!r} can never go on: {self._waits(run)}"

    def _waits(self, run: Run) -> str:
        host = self._fleet.hosts().get(run.id)
        if host is None:
            return f"no worker of app {run.request.app!r} that is up knows {run.request.flow!r}"
        if host.parked_why is not None:
            return host.parked_why
        waits = [_told(operation) for operation in host.in_flight.values()]
        return f"it waits in {', '.join(waits)}" if waits else "it waits for nothing at all"


def _told(operation: Operation) -> str:
    name = f" {operation.name!r}" if operation.name else ""
    return f"{operation.kind}{name}"
