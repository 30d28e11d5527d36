"""DBOS under test: worker processes over a Postgres that the lab holds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg

from iworkflow.core import Client
from iworkflow.core.engines import engine
from iworkflow_lab.capabilities import Capability
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.engines.processes import ProcessArena
from iworkflow_lab.servers import ServerError, create_database, drop_database, postgres

DATABASE = "DBOS_SYSTEM_DATABASE_URL"
"""DBOS's own variable; the adapter follows it."""


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


class DbosArena(ProcessArena):
    """A database of its own, and worker processes on it."""

    def __init__(self, folder: Path, server: str, url: str, client: Client) -> None:
        self._server = server
        self._url = url
        super().__init__(folder, client, _Store(url), engine="dbos", environment={DATABASE: url})

    def another_client(self, *, max_payload: int) -> Client:
        """Return a client with a limit of its own."""
        return engine("dbos").client(url=self._url, max_payload=max_payload)

    async def ruin(self) -> None:
        """Drop the database."""
        await drop_database(self._server, self._url)


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
