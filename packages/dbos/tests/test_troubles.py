"""What goes wrong between a worker and its database costs time, and never a run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition, Target
from iworkflow.core.steps import step_attempt
from iworkflow.dbos import DbosClient, DbosRuntime, active

# As a claim leaves it whose commit is the last that its connection did.
CLAIMED = """UPDATE dbos.workflow_status SET status = 'PENDING', owner_xid = 'nobody',
        queue_name = $2, application_name = $2, application_version = $2 || '-patching',
        executor_id = (SELECT executor_id FROM iwf.executor WHERE app = $2),
        recovery_attempts = 1, started_at_epoch_ms = extract(epoch FROM now()) * 1000
    WHERE workflow_uuid = $1"""
BLOCKED = """SELECT {}(pid) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query LIKE '%iwf.' || $1 || ' %'"""
TAKING = """SELECT 1 FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE dbos.workflow_status%'"""
LOCK = "SELECT 1 FROM dbos.workflow_status WHERE workflow_uuid = $1 FOR NO KEY UPDATE"
BEAT = "SELECT max(beat) FROM iwf.executor WHERE app = $1"


async def waits(ctx: Context) -> list[Any]:
    return [await ctx.patched("new"), await ctx.recv("topic", timeout=30)]


attempts: list[int] = []
going_on = asyncio.Event()


async def fails_twice() -> int:
    attempts.append(step_attempt())
    if attempts == [1, 2]:
        await going_on.wait()
    if step_attempt() < 3:
        raise ValueError("not yet")
    return step_attempt()


async def retries(ctx: Context) -> int:
    return await ctx.step(fails_twice, attempts=3)


def build(app_name: str) -> AppDefinition:
    return AppDefinition(
        app_name, flows=[waits, retries], activities=[fails_twice], patches=["new"]
    )


@asynccontextmanager
async def connected(postgres: str) -> AsyncGenerator[Any]:
    connection: Any = await asyncpg.connect(postgres)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def locked(postgres: str, table: str) -> AsyncGenerator[None]:
    async with connected(postgres) as locker, locker.transaction():
        await locker.execute(f"LOCK TABLE iwf.{table} IN EXCLUSIVE MODE")
        yield


async def at_the_lock(postgres: str, table: str, call: str = "") -> None:
    """Wait for a statement that waits for the lock, and call a function of Postgres for it."""
    async with connected(postgres) as operator, asyncio.timeout(20):
        while not await operator.fetch(BLOCKED.format(call), table):
            await asyncio.sleep(0.02)


async def test_a_statement_that_fails_is_made_again(
    postgres: str, app_name: str, client: DbosClient, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator cancels it: it is no outcome of the operation, and the run is not parked."""
    app = build(app_name)
    async with DbosRuntime(postgres).running(app):
        async with locked(postgres, "claim"):
            handle = await client.start(app.target(waits), id=f"{app_name}-r")
            await at_the_lock(postgres, "claim", "pg_cancel_backend")
        await handle.signal("topic", "word")
        assert await handle.result(timeout=20) == [True, "word"]
    assert "canceling statement due to user request" in caplog.text


async def test_what_a_dispatch_wrote_counts_for_the_next(
    postgres: str, app_name: str, client: DbosClient
) -> None:
    """The attempts go on where they were when the engine failed, and not from the first."""
    app = build(app_name)
    async with DbosRuntime(postgres).running(app):
        handle = await client.start(app.target(retries), id=f"{app_name}-r")
        async with asyncio.timeout(20):
            while attempts != [1, 2]:
                await asyncio.sleep(0.02)
        async with locked(postgres, "attempt"):
            going_on.set()
            await at_the_lock(postgres, "attempt", "pg_cancel_backend")
        assert await handle.result(timeout=20) == 3
    assert attempts == [1, 2, 2, 3]


async def test_a_kill_before_the_birth_is_written(
    postgres: str, app_name: str, client: DbosClient, spawn: Callable[..., Awaitable[Any]]
) -> None:
    """The run was dispatched under code that declares the patch, so it has it."""
    first = await spawn(TEST_WORKER="one")
    async with locked(postgres, "birth"):
        handle = await client.start(Target(app_name, "born"), id=f"{app_name}-r")
        await at_the_lock(postgres, "birth")
        await first.kill()
        await at_the_lock(postgres, "birth", "pg_terminate_backend")
    await spawn(TEST_WORKER="two")
    assert await handle.result(timeout=20) is True


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


async def test_a_takeover_that_waits(
    postgres: str, app_name: str, client: DbosClient, spawn: Callable[..., Awaitable[Any]]
) -> None:
    """Who hands on a dead worker's runs beats on meanwhile: it is not taken for dead itself."""
    first = await spawn(TEST_WORKER="one", TEST_SILENT_AFTER="6")
    handle = await client.start(Target(app_name, "one_slow"), 60, id=f"{app_name}-r")
    await first.says("begin it")
    await spawn(TEST_WORKER="two", TEST_SLOW="0", TEST_SILENT_AFTER="6")
    async with (
        connected(postgres) as locker,
        connected(postgres) as reader,
        asyncio.timeout(30),
        locker.transaction(),
    ):
        await locker.execute(LOCK, handle.id)
        await first.kill()
        while not await reader.fetch(TAKING):
            await asyncio.sleep(0.02)
        before = await reader.fetchval(BEAT, app_name)
        while await reader.fetchval(BEAT, app_name) == before:
            await asyncio.sleep(0.02)
        assert await reader.fetch(TAKING)
    assert await handle.result(timeout=20) == "it-by-two"
