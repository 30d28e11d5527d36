"""The memory engine under test: its workers live in the lab's own process.

A KILL drops the driver and every task of a worker and keeps the store; what it had is offered
to the other workers, and taken up by the next one that starts. A frozen worker runs on without
knowing that its runs are taken from it, as a process does that was frozen and is awake again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from iworkflow.core import Client
from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD, loads
from iworkflow.core.memory import MemoryClient, MemoryStore, RealClock
from iworkflow.core.memory.store import Run, StoredRecord
from iworkflow.core.memory.worker import MemoryWorker
from iworkflow.core.runtime import Runtime
from iworkflow.core.steps import AttemptState
from iworkflow_lab.capabilities import Capability
from iworkflow_lab.effects import FOLDER, Effect, EffectLog
from iworkflow_lab.engines.base import SILENCE, WORKER_LOG, Arena, Worker
from iworkflow_lab.lines import log_lines
from iworkflow_lab.worker import GRACE, load


class _Worker:
    """A worker in this process, and how it is killed."""

    name = "in this process"

    def __init__(
        self, store: MemoryStore, log: EffectLog, *, grace: float, max_payload: int
    ) -> None:
        self._grace = grace
        self._stopping: asyncio.Task[None] | None = None
        self.engine = MemoryWorker(store, max_payload=max_payload)
        self._runtime = Runtime(self.engine)
        self._store = store
        self._log = log
        self._app = ""
        self.over = False

    async def start(self, reference: str) -> None:
        app = load(reference)
        self._app = app.app
        await self._runtime.start(app)

    def owned(self) -> list[Run]:
        return [run for run in self._store.runs.values() if run.owner is self.engine]

    async def kill(self) -> None:
        self.over = True
        for run in self.owned():
            self._log.append(Effect("kill", run=run.id, worker=str(os.getpid())))
        await self.engine.crash()
        await self._runtime.stop(0)
        self._offer_all()

    def _offer_all(self) -> None:
        for run in self._store.waiting_runs(self._app):
            self._store.offer(run)

    async def leave(self) -> None:
        self.over = True
        self._stopping = asyncio.create_task(self._runtime.stop(self._grace))
        while self.engine in self._store.takers[self._app]:
            await asyncio.sleep(0)

    async def stop(self) -> None:
        self.over = True
        await self._runtime.stop(self._grace)

    async def freeze(self) -> None:
        runs = self.owned()
        self.engine.freeze()
        for run in runs:
            run.owner = None
        self._offer_all()

    async def thaw(self) -> None:
        self._store.join(self._app, self.engine)

    async def done(self) -> None:
        await self._runtime.done()


class _Store:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def steps(self, run: str) -> int:
        """Return how many steps of the run have a recorded outcome."""
        return sum(record.kind == "step" for record in self._store.runs[run].history.values())

    async def operations(self, run: str) -> int:
        """Return how many operations of any kind the run has recorded."""
        return sum(record.kind != "order" for record in self._store.runs[run].history.values())

    async def attempts(self, run: str) -> list[AttemptState]:
        """Return how far the steps of the run are that have failed or beaten."""
        books = sorted(self._store.runs[run].books.items())
        return [AttemptState.from_json(loads(book)) for _, book in books]


class _Refusing:
    """What makes a store fail that is told to record something."""

    def recorded(self, run: Run, place: int, record: StoredRecord) -> None:
        raise OSError("the store takes no record")

    def delivered(self, run: Run, topic: str, value: bytes) -> None:
        pass

    def closed(self, run: Run) -> None:
        pass


class MemoryArena(Arena):
    """A store of its own on the wall clock."""

    def __init__(self, folder: Path) -> None:
        self._memory = MemoryStore(RealClock())
        self._workers: list[_Worker] = []
        client, store = MemoryClient(self._memory), _Store(self._memory)
        super().__init__(folder, client, store, engine="memory", environment={})

    async def worker(
        self,
        app: str,
        *,
        silence: float | None = SILENCE,
        grace: float | None = None,
        max_payload: int | None = None,
    ) -> Worker:
        """Start a worker; how long a silent one is waited for means nothing here."""
        worker = _Worker(
            self._memory,
            self.log,
            grace=GRACE if grace is None else grace,
            max_payload=max_payload or DEFAULT_MAX_PAYLOAD,
        )
        self._workers.append(worker)
        await worker.start(app)
        return worker

    def another_client(self, *, max_payload: int) -> Client:
        """Return a client with a limit of its own."""
        return MemoryClient(self._memory, max_payload=max_payload)

    async def owner(self, run: str) -> Worker:
        """Return the worker that has the run now."""
        owner = self._memory.runs[run].owner
        return next(worker for worker in self._workers if worker.engine is owner)

    async def ruin(self) -> None:
        """Let the store take no record any more."""
        self._memory.observer = _Refusing()

    async def close(self) -> None:
        """Stop every worker."""
        for worker in self._workers:
            if not worker.over:
                await worker.kill()
        await self.client.close()


class MemoryLab:
    """The reference."""

    name = "memory"
    declared: Mapping[Capability, str] = {
        Capability.SERVER: "the store lives in the process of the worker",
        Capability.PROCESSES: "worker and client share one process",
        Capability.PACKAGE: "the engine comes with core and is of its version",
    }

    @contextmanager
    def server(self) -> Generator[None]:
        """There is none."""
        yield

    @asynccontextmanager
    async def arena(self, folder: Path, *, alone: bool = False) -> AsyncGenerator[Arena]:
        """Give a fresh store."""
        with _environment(folder), _log_into(folder / WORKER_LOG):
            arena = MemoryArena(folder)
            try:
                yield arena
            finally:
                await arena.close()


@contextmanager
def _environment(folder: Path) -> Generator[None]:
    before = os.environ.get(FOLDER)
    os.environ[FOLDER] = str(folder)
    try:
        yield
    finally:
        del os.environ[FOLDER]
        if before is not None:
            os.environ[FOLDER] = before


@contextmanager
def _log_into(path: Path) -> Generator[None]:
    handler = logging.FileHandler(path)
    handler.setFormatter(log_lines())
    logger = logging.getLogger("iworkflow")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
