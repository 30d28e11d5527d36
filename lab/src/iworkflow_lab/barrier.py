"""Kills at chosen moments: let steps go one at a time until a condition, then SIGKILL."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass

from iworkflow_lab.effects import Effect
from iworkflow_lab.engines.base import Arena, Worker
from iworkflow_lab.until import until

LEAST_IN_FLIGHT = 2
"""A moment with fewer steps in the air leaves nothing to chance, and does not count."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a kill met."""

    run: str
    recorded: int
    """Operations of any kind that the store held."""
    in_flight: int
    """Steps that had begun and not ended."""
    unrecorded: int
    """Steps that had ended while the store did not know it yet."""

    @property
    def counts(self) -> bool:
        """Whether enough was in the air."""
        return self.in_flight >= LEAST_IN_FLIGHT

    def __str__(self) -> str:
        """Say it in a line."""
        return (
            f"kill of {self.run}: {self.recorded} operations recorded, {self.in_flight} steps "
            f"in flight, {self.unrecorded} ended but not recorded"
        )


class Conductor:
    """Lets the held steps of a run go, one at a time, in an order drawn from a seed."""

    def __init__(self, arena: Arena, run: str, *, seed: int) -> None:
        self._arena = arena
        self._run = run
        self._random = random.Random(seed)

    async def play(self, ended: int) -> None:
        """Go on until so many steps have ended and at least two are in the air."""
        while len(self._ended()) < ended or not await self._crowded():
            await self._step()

    async def _step(self) -> None:
        await until(self._held, f"a step of {self._run} begins")
        chosen = self._random.choice(self._held())
        self._arena.let_go(chosen.call)
        await until(lambda: not self._goes_on(chosen), f"step {chosen.key!r} ends", every=0.002)

    def _held(self) -> list[Effect]:
        return self._arena.log.in_flight(self._run)

    def _goes_on(self, effect: Effect) -> bool:
        return any(held.call == effect.call for held in self._held())

    def _ended(self) -> list[Effect]:
        return [effect for effect in self._arena.log.read(self._run) if effect.what == "end"]

    async def _crowded(self) -> bool:
        with suppress(TimeoutError):
            await until(lambda: len(self._held()) >= LEAST_IN_FLIGHT, "enough", seconds=0.5)
            return True
        return False


async def kill(arena: Arena, worker: Worker, run: str) -> Moment:
    """Kill the worker and tell what the kill met in the run."""
    await worker.kill()
    ended, in_flight = arena.log.at_kill(run)
    recorded = await arena.store.steps(run)
    moment = Moment(
        run=run,
        recorded=await arena.store.operations(run),
        in_flight=len(in_flight),
        unrecorded=len(ended) - recorded,
    )
    print(moment)
    return moment
