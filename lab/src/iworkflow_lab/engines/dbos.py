"""DBOS under test: worker processes over a Postgres that the lab holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import asyncpg

from iworkflow.core import Client
from iworkflow.core.engines import engine
from iworkflow.core.steps import AttemptState
from iworkflow_lab.capabilities import Capability
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.engines.processes import ProcessArena
from iworkflow_lab.servers import (
    Postgres,
    ServerError,
    create_database,
    drop_database,
    own_postgres,
    postgres,
)

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

    async def attempts(self, run: str) -> list[AttemptState]:
        """Return how far the steps of the run are that have failed or beaten."""
        states = await self._read(
            "SELECT state FROM iwf.attempt WHERE workflow_id = $1 ORDER BY place", run
        )
        return [AttemptState.from_json(json.loads(state)) for state in states]

    async def _names(self, run: str) -> list[str]:
        return await self._read(
            "SELECT function_name FROM dbos.operation_outputs WHERE workflow_uuid = $1", run
        )

    async def _read(self, query: str, run: str) -> list[str]:
        connection: Any = await cast("Any", asyncpg).connect(self._url)
        try:
            return [str(row[0]) for row in await connection.fetch(query, run)]
        finally:
            await connection.close()


class DbosArena(ProcessArena):
    """A database of its own, and worker processes on it."""

    def __init__(self, folder: Path, server: Postgres, url: str, client: Client) -> None:
        self._server = server
        self._url = url
        super().__init__(folder, client, _Store(url), engine="dbos", environment={DATABASE: url})

    def another_client(self, *, max_payload: int) -> Client:
        """Return a client with a limit of its own."""
        return engine("dbos").client(url=self._url, max_payload=max_payload)

    async def ruin(self) -> None:
        """Drop the database."""
        await drop_database(self._server.url, self._url)

    async def restart_server(self) -> None:
        """Stop the server at once, without its clean-ups, and start it again."""
        await asyncio.to_thread(self._server.restart)


class DbosLab:
    """DBOS on Postgres."""

    name = "dbos"
    declared: Mapping[Capability, str] = {}

    def __init__(self) -> None:
        self._server: Postgres | None = None

    @property
    def server_url(self) -> str:
        """Where the server is, while it is held."""
        with self._shared() as server:
            return server.url

    @contextmanager
    def server(self) -> Generator[None]:
        """Hold a Postgres."""
        with postgres() as server:
            self._server = server
            yield
            self._server = None

    @asynccontextmanager
    async def arena(self, folder: Path, *, alone: bool = False) -> AsyncGenerator[Arena]:
        """Give a fresh database."""
        with own_postgres() if alone else self._shared() as server:
            url = await create_database(server.url)
            try:
                client = engine("dbos").client(url=url)
                arena = DbosArena(folder, server, url, client)
                try:
                    yield arena
                finally:
                    await arena.close()
            finally:
                await drop_database(server.url, url)

    @contextmanager
    def _shared(self) -> Generator[Postgres]:
        if self._server is None:
            raise ServerError("an arena of DBOS needs its server")
        yield self._server
