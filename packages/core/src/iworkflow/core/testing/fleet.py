"""The workers of a test: up, down, dead and back again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iworkflow.core.definition import AppDefinition
from iworkflow.core.memory.host import MemoryHost
from iworkflow.core.memory.worker import MemoryWorker
from iworkflow.core.port import RunStep

if TYPE_CHECKING:
    from iworkflow.core.testing.stage import TestStage
    from iworkflow.core.testing.trace import Recorder


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A step that a crash caught before its record: it may have run, and runs again."""

    run: str
    place: int
    step: str
    digest: str
    """Tells apart two calls of the step with other arguments."""


class Fleet:
    """One worker for each app."""

    def __init__(self, stage: TestStage, recorder: Recorder) -> None:
        self._recorder = recorder
        stage.crash = self.crash
        self._workers: dict[str, tuple[AppDefinition, MemoryWorker]] = {}
        self._up: list[str] = []
        self._crash: asyncio.Task[None] | None = None
        self.interrupted: list[Interrupted] = []

    def add(self, app: AppDefinition, worker: MemoryWorker) -> None:
        """Take in the worker of an app; it is down."""
        self._workers[app.app] = app, worker

    async def up(self, name: str) -> None:
        """Start a worker that is down."""
        app, worker = self._get(name)
        if name not in self._up:
            self._up.append(name)
            await worker.start(app)

    async def down(self, name: str) -> None:
        """Stop a worker that is up."""
        _, worker = self._get(name)
        if name in self._up:
            self._up.remove(name)
            await worker.stop(0)

    async def all_up(self) -> None:
        """Start all that are down."""
        for name in self._workers:
            await self.up(name)

    async def all_down(self) -> None:
        """Stop all that are up."""
        await self.crashed()
        for name in list(self._up):
            await self.down(name)

    def crash(self) -> None:
        """Let all die: nothing is recorded any more once this returns. They come back soon."""
        if self._crash is not None and not self._crash.done():
            return
        for name in self._up:
            _, worker = self._workers[name]
            for run_id, host in worker.hosts.items():
                self._caught(run_id, host)
            worker.freeze()
        self._crash = asyncio.get_running_loop().create_task(self._die_and_come_back())

    async def crashed(self) -> None:
        """Wait until all that died are back."""
        if self._crash is not None:
            await self._crash

    def hosts(self) -> dict[str, MemoryHost]:
        """The dispatches that are going on, by the id of their run."""
        workers = (self._workers[name][1] for name in self._up)
        return {run_id: host for worker in workers for run_id, host in worker.hosts.items()}

    def broken(self) -> BaseException | None:
        """What broke a worker, if something did."""
        workers = (worker for _, worker in self._workers.values())
        return next((worker.trouble for worker in workers if worker.trouble), None)

    def _get(self, name: str) -> tuple[AppDefinition, MemoryWorker]:
        if name not in self._workers:
            known = ", ".join(map(repr, self._workers))
            raise ValueError(f"no app {name!r} in this test (apps: {known})")
        return self._workers[name]

    def _caught(self, run_id: str, host: MemoryHost) -> None:
        self._recorder.crashed(run_id)
        for place, operation in host.in_flight.items():
            if isinstance(operation, RunStep):
                caught = Interrupted(run_id, place, operation.name, operation.digest)
                self.interrupted.append(caught)

    async def _die_and_come_back(self) -> None:
        names = list(self._up)
        for name in names:
            await self._workers[name][1].crash()
        for name in names:
            app, worker = self._workers[name]
            await worker.start(app)
