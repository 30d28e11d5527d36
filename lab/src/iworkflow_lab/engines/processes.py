"""Arenas whose workers are processes: started, asked, killed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iworkflow.core import Client
from iworkflow_lab.effects import Effect, EffectLog
from iworkflow_lab.engines.base import SILENCE, WORKER_LOG, Arena, Store, Worker
from iworkflow_lab.processes import Process

_NO_SETTINGS: Mapping[str, Any] = {}


class ProcessWorker:
    """A worker process, and the line that its kill leaves in the effect log."""

    def __init__(self, process: Process, log: EffectLog) -> None:
        self.process = process
        self._log = log

    @property
    def name(self) -> str:
        """Where it runs, for people."""
        return f"process {self.process.name}"

    async def kill(self) -> None:
        """SIGKILL, with a line in the effect log."""
        await self.process.kill()
        self._log.append(Effect("kill", worker=self.process.name))

    async def leave(self) -> None:
        """SIGTERM; return once it says that it stops."""
        await self.process.leave()

    async def stop(self) -> None:
        """Let it end in an orderly way."""
        await self.process.stop()

    async def freeze(self) -> None:
        """SIGSTOP."""
        self.process.freeze()

    async def thaw(self) -> None:
        """SIGCONT."""
        self.process.thaw()

    async def done(self) -> None:
        """Wait for its end.

        Raises:
            WorkerDied: what broke it.
        """
        await self.process.ended()


class ProcessArena(Arena):
    """A store of its own, and worker processes on it.

    Args:
        folder: where the effect log and the gates are.
        client: a client of the store.
        store: what the store holds.
        engine: the engine's name among the installed ones.
        environment: the variables by which other processes find the store.
        settings: the runtime's arguments.
    """

    def __init__(
        self,
        folder: Path,
        client: Client,
        store: Store,
        *,
        engine: str,
        environment: Mapping[str, str],
        settings: Mapping[str, Any] = _NO_SETTINGS,
    ) -> None:
        self._workers: list[ProcessWorker] = []
        self._settings = settings
        super().__init__(folder, client, store, engine=engine, environment=environment)

    async def worker(
        self,
        app: str,
        *,
        silence: float | None = SILENCE,
        grace: float | None = None,
        max_payload: int | None = None,
    ) -> Worker:
        """Start a worker process of the app."""
        given = {
            **self._settings,
            "silent_after": silence,
            "grace": grace,
            "max_payload": max_payload,
        }
        settings = {name: value for name, value in given.items() if value is not None}
        process = await Process.start(
            ["iworkflow_lab.worker", self.engine, app, json.dumps(settings)],
            output=self.folder / WORKER_LOG,
            environment=self.environment,
        )
        worker = ProcessWorker(process, self.log)
        self._workers.append(worker)
        return worker

    async def owner(self, run: str) -> Worker:
        """Return the worker process whose step of the run is in flight."""
        name = self.log.in_flight(run)[0].worker
        return next(worker for worker in self._workers if worker.process.name == name)

    async def close(self) -> None:
        """End every process."""
        for worker in self._workers:
            await worker.process.kill()
        await self.client.close()
