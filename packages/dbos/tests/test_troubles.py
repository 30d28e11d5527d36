"""What goes wrong between a worker and its database costs time, and never a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition
from iworkflow.dbos import DbosClient, DbosRuntime

BLOCKED = """SELECT pg_cancel_backend(pid) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query LIKE '%FROM iwf.claim%'"""


async def waits(ctx: Context) -> list[Any]:
    return [await ctx.patched("new"), await ctx.recv("topic", timeout=30)]


def build(app_name: str) -> AppDefinition:
    return AppDefinition(app_name, flows=[waits], activities=[], patches=["new"])


@asynccontextmanager
async def connected(postgres: str) -> AsyncGenerator[Any]:
    connection: Any = await asyncpg.connect(postgres)
    try:
        yield connection
    finally:
        await connection.close()


async def cancelled(postgres: str) -> None:
    """Cancel the statement that waits for the lock, as soon as there is one."""
    async with connected(postgres) as operator, asyncio.timeout(20):
        while not await operator.fetch(BLOCKED):
            await asyncio.sleep(0.02)


async def test_a_statement_that_fails_is_made_again(
    postgres: str, app_name: str, client: DbosClient, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator cancels it: it is no outcome of the operation, and the run is not parked."""
    app = build(app_name)
    async with DbosRuntime(postgres).running(app), connected(postgres) as locker:
        async with locker.transaction():
            await locker.execute("LOCK TABLE iwf.claim IN EXCLUSIVE MODE")
            handle = await client.start(app.target(waits), id=f"{app_name}-r")
            await cancelled(postgres)
        await handle.signal("topic", "word")
        assert await handle.result(timeout=20) == [True, "word"]
    assert "canceling statement due to user request" in caplog.text
