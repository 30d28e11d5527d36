"""Our own SQL, through asyncpg.

Every statement given here must be safe to run twice: when the connection is cut or the server
restarts, it is run again until it succeeds. A cancel of the caller does not wait for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import asyncpg

from iworkflow.dbos.errors import is_cut, unreachable
from iworkflow.dbos.settings import Location

logger = logging.getLogger("iworkflow.dbos")

Row = Mapping[str, Any]
R = TypeVar("R")

CONNECT_TIMEOUT = 10.0
COMMAND_TIMEOUT = 20.0
_UNREACHABLE = (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError)
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0


class Database:
    """A small pool of connections to one database. It belongs to one event loop."""

    def __init__(self, location: Location, *, size: int = 5) -> None:
        self.location = location
        self._size = size
        self._pool: Any = None

    async def open(self) -> None:
        """Connect; a failure or a cancel leaves nothing open.

        Raises:
            ConnectionError: the server cannot be reached or refuses the login.
        """
        try:
            self._pool = await cast("Any", asyncpg).create_pool(
                self.location.url,
                min_size=0,  # it would log every failure to keep some open
                max_size=self._size,
                timeout=CONNECT_TIMEOUT,
                command_timeout=COMMAND_TIMEOUT,
                server_settings={"application_name": "iworkflow"},
            )
            await self._pool.fetchval("SELECT 1")
        except BaseException as error:
            await self.close()
            if isinstance(error, _UNREACHABLE):
                raise unreachable(self.location, error) from error
            raise

    async def close(self) -> None:
        """Close the connections, in use or not."""
        if self._pool is not None:
            self._pool.terminate()

    async def rows(self, sql: str, *args: object) -> Sequence[Row]:
        """Run a statement and return its rows."""
        return await self.retried(lambda: self._pool.fetch(sql, *args))

    async def row(self, sql: str, *args: object) -> Row | None:
        """Run a statement and return its first row."""
        return await self.retried(lambda: self._pool.fetchrow(sql, *args))

    async def value(self, sql: str, *args: object) -> Any:
        """Run a statement and return the first value of its first row."""
        return await self.retried(lambda: self._pool.fetchval(sql, *args))

    async def execute(self, sql: str, *args: object) -> str:
        """Run a statement and return its status, as `UPDATE 1`."""
        return await self.retried(lambda: self._pool.execute(sql, *args))

    async def connection(self) -> Any:
        """Open a connection of its own, outside the pool."""
        return await connect(self.location)

    async def retried(self, call: Callable[[], Awaitable[R]]) -> R:
        """Make a call, again for as long as the server is away; it must be safe to make twice."""
        wait = _FIRST_WAIT
        while True:
            try:
                return await call()
            except Exception as error:
                if not is_cut(error) or self._closing():
                    raise
                if wait >= _LONGEST_WAIT:
                    logger.warning("waiting for Postgres at %s: %s", self.location.shown, error)
                await asyncio.sleep(wait)
                wait = min(wait * 2, _LONGEST_WAIT)

    def _closing(self) -> bool:
        return self._pool is None or bool(self._pool.is_closing())


async def connect(location: Location) -> Any:
    """Open one connection.

    Raises:
        ConnectionError: the server cannot be reached or refuses the login.
    """
    try:
        return await cast("Any", asyncpg).connect(
            location.url,
            timeout=CONNECT_TIMEOUT,
            server_settings={"application_name": "iworkflow"},
        )
    except _UNREACHABLE as error:
        raise unreachable(location, error) from error
