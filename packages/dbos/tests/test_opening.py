"""A first use that is given up leaves nothing open."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import asyncpg
import pytest
from dbos import DBOSClient

from iworkflow.dbos import DbosClient
from iworkflow.dbos.client import Link
from iworkflow.dbos.database import Database
from iworkflow.dbos.settings import Location, Polling

OPEN = """SELECT count(*) FROM pg_stat_activity
    WHERE application_name IN ('iworkflow', 'dbos_transact_client')"""


async def test_cancelled_while_dbos_connects(
    postgres: str, client: DbosClient, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool is closed at once; the thread that still connects destroys what it made."""
    making, go_on, destroyed = threading.Event(), threading.Event(), threading.Event()
    made, destroy = DBOSClient.__init__, DBOSClient.destroy

    def slowly(self: DBOSClient, **options: Any) -> None:
        making.set()
        go_on.wait(20)
        made(self, **options)

    def end(self: DBOSClient) -> None:
        destroy(self)
        destroyed.set()

    monkeypatch.setattr(DBOSClient, "__init__", slowly)
    monkeypatch.setattr(DBOSClient, "destroy", end)
    before = await connection.fetchval(OPEN)
    link = Link(Location(postgres, "test"), Polling(results=0.2))
    opening = asyncio.create_task(link.open())
    assert await asyncio.to_thread(making.wait, 20)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    go_on.set()
    with pytest.raises(asyncpg.InterfaceError, match="pool is closed"):
        await link.database.value("SELECT 1")
    assert await asyncio.to_thread(destroyed.wait, 20)
    async with asyncio.timeout(20):
        while await connection.fetchval(OPEN) > before:
            await asyncio.sleep(0.02)


async def test_cancelled_while_the_pool_connects() -> None:
    """A server that does not answer: the connection is closed, and the pool."""
    hung_up = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            pass
        hung_up.set()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable"
    database = Database(Location(url, "test"))
    async with server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await database.open()
        async with asyncio.timeout(5):
            await hung_up.wait()
    with pytest.raises(asyncpg.InterfaceError, match="pool is closed"):
        await database.value("SELECT 1")
