"""What goes wrong between a worker and its database costs time, and never a run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition
from iworkflow.dbos import DbosClient, DbosRuntime, active

# As a claim leaves it whose commit is the last that its connection did.
CLAIMED = """UPDATE dbos.workflow_status SET status = 'PENDING', owner_xid = 'nobody',
        queue_name = $2, application_name = $2, application_version = $2 || '-patching',
        executor_id = (SELECT executor_id FROM iwf.executor WHERE app = $2),
        recovery_attempts = 1, started_at_epoch_ms = extract(epoch FROM now()) * 1000
    WHERE workflow_uuid = $1"""
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


async def test_a_claim_whose_answer_was_lost(
    postgres: str,
    app_name: str,
    client: DbosClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A run that is this worker's by its row, though the worker never heard of it, is run."""
    monkeypatch.setattr(active, "_BEGIN_WITHIN", 3.0)
    app, nobody = build(app_name), build(f"{app_name}-nobody")
    handle = await client.start(nobody.target(waits), id=f"{app_name}-r")
    await handle.signal("topic", "word")
    with caplog.at_level(logging.WARNING, "iworkflow.dbos"):
        async with DbosRuntime(postgres).running(app):
            async with connected(postgres) as connection:
                assert await connection.execute(CLAIMED, handle.id, app_name) == "UPDATE 1"
            assert await handle.result(timeout=20) == [True, "word"]
    assert f"run '{handle.id}' was claimed and never begun" in caplog.text
