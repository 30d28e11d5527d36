"""DBOS under test: worker processes over a Postgres that the lab holds."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg

from iworkflow.core import Client
from iworkflow.core.engines import engine
from iworkflow_lab.capabilities import Capability
from iworkflow_lab.effects import Effect, EffectLog
from iworkflow_lab.engines.base import SILENCE, WORKER_LOG, Arena, Worker
from iworkflow_lab.processes import Process
from iworkflow_lab.servers import ServerError, create_database, drop_database, postgres

DATABASE = "DBOS_SYSTEM_DATABASE_URL"
"""DBOS's own variable; the adapter follows it."""


class _Worker:
    """A worker process, and the line that its kill leaves in the effect log."""

    def __init__(self, process: Process, log: EffectLog) -> None:
        self.process = process
        self._log = log

    @property
    def name(self) -> str:
        return f"process {self.process.name}"

    async def kill(self) -> None:
        await self.process.kill()
        self._log.append(Effect("kill", worker=self.process.name))

    async def stop(self) -> None:
        await self.process.stop()

    async def done(self) -> None:
        await self.process.ended()


class _Store:
    """DBOS's own tables."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def steps(self, run: str) -> int:
        """Return how many steps of the run have a recorded outcome."""
        return sum(not name.startswith("iwf.") for name in await self._names(run))

    async def operations(self, run: str) -> int:
        """Return how many operations of any kind the run has recorded."""
        return sum(name != "iwf.order" for name in await self._names(run))

    async def _names(self, run: str) -> list[str]:
        connection: Any = await cast("Any", asyncpg).connect(self._url)
        try:
            rows = await connection.fetch(
                "SELECT function_name FROM dbos.operation_outputs WHERE workflow_uuid = $1", run
            )
        finally:
            await connection.close()
        return [str(row["function_name"]) for row in rows]


class DbosArena(Arena):
    """A database of its own, and worker processes on it."""

    def __init__(self, folder: Path, server: str, url: str, client: Client) -> None:
        self._server = server
        self._url = url
        self._workers: list[_Worker] = []
        super().__init__(folder, client, _Store(url), engine="dbos", environment={DATABASE: url})

    async def worker(
        self, app: str, *, silence: float | None = SILENCE, max_payload: int | None = None
    ) -> Worker:
        """Start a worker process of the app."""
        given = {"silent_after": silence, "max_payload": max_payload}
        settings = {name: value for name, value in given.items() if value is not None}
        process = await Process.start(
            ["iworkflow_lab.worker", "dbos", app, json.dumps(settings)],
            output=self.folder / WORKER_LOG,
            environment=self.environment,
        )
        worker = _Worker(process, self.log)
        self._workers.append(worker)
        return worker

    def another_client(self, *, max_payload: int) -> Client:
        """Return a client with a limit of its own."""
        return engine("dbos").client(url=self._url, max_payload=max_payload)

    async def owner(self, run: str) -> Worker:
        """Return the worker process whose step of the run is in flight."""
        name = self.log.in_flight(run)[0].worker
        return next(worker for worker in self._workers if worker.process.name == name)

    async def ruin(self) -> None:
        """Drop the database."""
        await drop_database(self._server, self._url)

    async def close(self) -> None:
        """End every process."""
        for worker in self._workers:
            await worker.process.kill()
        await self.client.close()


class DbosLab:
    """DBOS on Postgres."""

    name = "dbos"
    declared: Mapping[Capability, str] = {}

    def __init__(self) -> None:
        self._server: str | None = None

    @property
    def server_url(self) -> str:
        """Where the server is, while it is held."""
        if self._server is None:
            raise ServerError("an arena of DBOS needs its server")
        return self._server

    @contextmanager
    def server(self) -> Generator[None]:
        """Hold a Postgres."""
        with postgres() as url:
            self._server = url
            yield
            self._server = None

    @asynccontextmanager
    async def arena(self, folder: Path) -> AsyncGenerator[Arena]:
        """Give a fresh database."""
        url = await create_database(self.server_url)
        try:
            client = engine("dbos").client(url=url)
            arena = DbosArena(folder, self.server_url, url, client)
            try:
                yield arena
            finally:
                await arena.close()
        finally:
            await drop_database(self.server_url, url)
