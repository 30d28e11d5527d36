"""The end of a run near its deadline: once somebody read `timed-out`, it stays so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition, Target
from iworkflow.core.errors import FlowError, Reason
from iworkflow.core.port import Status
from iworkflow.dbos import DbosClient, DbosRuntime

DEADLINE = "(attributes->>'iwf.deadline')::bigint"
RECORDED = f"""UPDATE dbos.workflow_status SET status = $2, completed_at = {DEADLINE} + $3::int
    WHERE workflow_uuid = $1"""


async def quick(ctx: Context) -> str:
    return "value"


async def parent(ctx: Context, id: str) -> str:
    try:
        return await ctx.child(quick, id=id)
    except FlowError as error:
        return str(error.reason)


def build(app_name: str) -> AppDefinition:
    return AppDefinition(app_name, flows=[quick, parent], activities=[])


@pytest.mark.parametrize("raw", ["SUCCESS", "ERROR"])
async def test_an_outcome_recorded_past_the_deadline(
    raw: str, postgres: str, app_name: str, client: DbosClient, connection: Any
) -> None:
    """Cut from its database, a worker records it late: every reader agrees on `timed-out`."""
    app = build(app_name)
    async with DbosRuntime(postgres).running(app):
        handle = await client.start(app.target(quick), id=f"{app_name}-r", timeout=60)
        assert await handle.result(timeout=20) == "value"
        assert (await handle.describe()).status is Status.COMPLETED
        await connection.execute(RECORDED, handle.id, raw, 5)
        described = await handle.describe()
        deadline = await connection.fetchval(
            f"SELECT {DEADLINE} FROM dbos.workflow_status WHERE workflow_uuid = $1",
            handle.id,
        )
        assert described.status is Status.TIMED_OUT
        assert described.closed_at is not None
        assert round(described.closed_at.timestamp() * 1000) == deadline
        with pytest.raises(FlowError) as caught:
            await handle.result(timeout=5)
        assert caught.value.reason is Reason.TIMEOUT
        assert [run.id for run in await client.list(app=app_name, status="timed-out")] == [
            handle.id
        ]
        assert await client.list(app=app_name, status="completed") == []
        waiting = await client.start(app.target(parent), handle.id, id=f"{app_name}-p")
        assert await waiting.result(timeout=20) == "timeout"


async def test_an_outcome_on_its_way_at_the_deadline(
    app_name: str, client: DbosClient, connection: Any
) -> None:
    """A reader past the deadline waits for what is being recorded, and it counts."""
    handle = await client.start(Target(app_name, "quick"), id=f"{app_name}-r", timeout=0.3)
    async with connection.transaction():
        await connection.execute(RECORDED, handle.id, "SUCCESS", -1)
        await asyncio.sleep(0.5)
        reading = [asyncio.create_task(handle.describe()), asyncio.create_task(handle.result())]
        await asyncio.sleep(0.5)
    described, result = await asyncio.gather(*reading)
    assert (described.status, result) == (Status.COMPLETED, None)
