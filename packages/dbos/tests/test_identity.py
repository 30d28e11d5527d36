"""Who started a run, and what makes it another one than the last that had its id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from dbos import DBOSClient, DBOSPortableJSONSerializer

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition, Target
from iworkflow.core.errors import FlowError, Reason
from iworkflow.dbos import DbosClient, DbosRuntime


async def draws(ctx: Context) -> list[Any]:
    return [str(ctx.uuid4()), ctx.random.random()]


async def draws_later(ctx: Context) -> list[str]:
    await ctx.set_state("first", str(ctx.uuid4()))
    await ctx.recv("go")
    return [str(ctx.uuid4())]


async def starts(ctx: Context, other: str) -> list[str]:
    await ctx.start_child(draws, id=other)
    await ctx.signal(ctx.workflow_id, "own", "word")
    return [str(ctx.uuid4())]


def build(app_name: str) -> AppDefinition:
    return AppDefinition(app_name, flows=[draws, draws_later, starts], activities=[])


@pytest.fixture
async def plain(postgres: str, client: DbosClient) -> AsyncGenerator[DBOSClient]:
    """DBOS's own client, after ours has made the tables."""
    await client.list(limit=1)
    plain = DBOSClient(system_database_url=postgres, serializer=DBOSPortableJSONSerializer())
    yield plain
    await asyncio.to_thread(plain.destroy)


async def test_a_start_whose_answer_was_lost(
    app_name: str, client: DbosClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made again and knows its own run; another's is still refused."""
    enqueue, cut = DBOSClient.enqueue_async, [ConnectionResetError("cut after the commit")]

    async def enqueued(*args: Any, **options: Any) -> Any:
        done = await enqueue(*args, **options)
        if cut:
            raise cut.pop()
        return done

    monkeypatch.setattr(DBOSClient, "enqueue_async", enqueued)
    target = Target(app_name, "draws")
    handle = await client.start(target, id=f"{app_name}-r", on_existing="reject")
    assert handle.created
    with pytest.raises(FlowError) as caught:
        await client.start(target, id=f"{app_name}-r", on_existing="reject")
    assert caught.value.reason is Reason.ALREADY_STARTED


async def test_an_id_that_is_used_again(
    postgres: str, app_name: str, client: DbosClient, connection: Any, plain: DBOSClient
) -> None:
    """The run draws other numbers, and its messages and children have other names."""
    app, id, other = build(app_name), f"{app_name}-r", f"{app_name}-c"
    named = """SELECT attributes->>'iwf.origin' AS origin, message_uuid
        FROM dbos.workflow_status, dbos.notifications
        WHERE workflow_uuid = $1 AND destination_uuid = $2"""
    found = set[Any]()
    async with DbosRuntime(postgres).running(app):
        for _ in range(2):
            handle = await client.start(app.target(starts), other, id=id)
            drawn = await handle.result(timeout=20)
            child = client.handle(other)
            found |= {*drawn, *await child.result(timeout=20)}
            row = await connection.fetchrow(named, other, id)
            assert len(row["origin"]) == 46
            assert id not in row["origin"]
            found |= {row["origin"], row["message_uuid"]}
            await plain.delete_workflows_async([id, other])
    assert len(found) == 10


async def test_the_next_worker_draws_the_same(
    postgres: str, app_name: str, client: DbosClient
) -> None:
    """A dispatch after a restart repeats what was drawn, and goes on from there."""
    app = build(app_name)
    target = app.target(draws_later)
    drawn: set[Any] = set()
    for n in range(2):
        async with DbosRuntime(postgres).running(app):
            handle = await client.start(target, id=f"{app_name}-{n}")
            while (first := await handle.query("first")) is None:
                pass
            drawn.add(first)
        async with DbosRuntime(postgres).running(app):
            await handle.signal("go", None)
            drawn |= set(await handle.result(timeout=20))
            assert await handle.query("first") == first
    assert len(drawn) == 4


async def test_a_run_of_another_program(
    postgres: str, app_name: str, client: DbosClient, plain: DBOSClient
) -> None:
    """Enqueued without our attributes, it is told apart by the time of that."""
    app, id = build(app_name), f"{app_name}-r"
    drawn: set[Any] = set()
    async with DbosRuntime(postgres).running(app):
        for _ in range(2):
            await plain.enqueue_async(
                {
                    "workflow_name": "draws",
                    "queue_name": app_name,
                    "application_name": app_name,
                    "workflow_id": id,
                }
            )
            assert (await client.handle(id).describe()).parent_id is None
            drawn |= set(await client.handle(id).result(timeout=20))
            await plain.delete_workflow_async(id)
    assert len(drawn) == 4
