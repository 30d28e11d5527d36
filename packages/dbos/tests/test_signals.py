"""A message and the start or the end of its run: one comes before the other, wherever it is cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition, Target
from iworkflow.core.errors import FlowError, Reason
from iworkflow.dbos import DbosClient, DbosRuntime

HELD_UP = """CREATE OR REPLACE FUNCTION iwf.hold_up() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(1.5); RETURN NEW; END';
CREATE TRIGGER hold_up BEFORE INSERT ON dbos.notifications FOR EACH ROW
    WHEN (starts_with(NEW.destination_uuid, '{app}')) EXECUTE FUNCTION iwf.hold_up()"""
FREE = "DROP TRIGGER hold_up ON dbos.notifications; DROP FUNCTION iwf.hold_up"
HELD = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


async def looks(ctx: Context) -> str | None:
    """Take what is there, and end."""
    return await ctx.recv("topic", timeout=0, result_type=str)


async def waits(ctx: Context) -> str | None:
    return await ctx.recv("topic", result_type=str)


async def tells(ctx: Context, other: str) -> str:
    try:
        await ctx.signal(other, "topic", "word")
    except FlowError as error:
        return str(error.reason)
    return "told"


def build(app_name: str) -> AppDefinition:
    return AppDefinition(app_name, flows=[looks, waits, tells], activities=[])


@pytest.fixture
async def held_up(connection: Any, app_name: str, client: DbosClient) -> AsyncGenerator[Any]:
    """A connection to a database where the app's messages take a while to be written."""
    await client.list(limit=1)
    await connection.execute(HELD_UP.format(app=app_name))
    try:
        yield connection
    finally:
        await connection.execute(FREE)


async def at_the_message(connection: Any) -> None:
    async with asyncio.timeout(20):
        while not await connection.fetch(HELD):
            await asyncio.sleep(0.02)


@pytest.mark.usefixtures("held_up")
async def test_a_run_starts_with_its_message(
    postgres: str, app_name: str, client: DbosClient
) -> None:
    """A flow that looks only once, at its beginning, finds it."""
    app = build(app_name)
    async with DbosRuntime(postgres).running(app):
        handle = await client.signal_with_start(
            app.target(looks), topic="topic", value="word", id=f"{app_name}-r"
        )
        assert handle.created
        assert await handle.result(timeout=20) == "word"


async def test_no_run_without_its_message(held_up: Any, app_name: str, client: DbosClient) -> None:
    """Whoever looks while the message is on its way sees no run; cut there, both are made again."""
    target = Target(app_name, "waits")
    starting = asyncio.create_task(
        client.signal_with_start(target, topic="topic", value="word", id=f"{app_name}-r")
    )
    await at_the_message(held_up)
    assert await client.list(app=app_name) == []
    await held_up.execute(HELD.replace("SELECT 1", "SELECT pg_terminate_backend(pid)"))
    assert (await starting).created
    sent = "SELECT message FROM dbos.notifications WHERE destination_uuid = $1"
    assert [row["message"] for row in await held_up.fetch(sent, f"{app_name}-r")] == ['"word"']


async def test_a_message_to_a_run_that_ends_meanwhile(
    held_up: Any, app_name: str, client: DbosClient
) -> None:
    """It is not acknowledged: nobody will take it."""
    target, id = Target(app_name, "waits"), f"{app_name}-r"
    handle = await client.start(target, id=id)
    signals = {
        Reason.NOT_FOUND: asyncio.create_task(handle.signal("topic", "word")),
        Reason.ALREADY_STARTED: asyncio.create_task(
            client.signal_with_start(target, topic="topic", value="word", id=id)
        ),
    }
    await at_the_message(held_up)
    await asyncio.sleep(0.3)
    await handle.terminate()
    for reason, signal in signals.items():
        with pytest.raises(FlowError) as caught:
            await signal
        assert caught.value.reason is reason


async def test_a_flow_tells_one_that_ends_meanwhile(
    postgres: str, held_up: Any, app_name: str, client: DbosClient
) -> None:
    """A flow that sends hears of it too."""
    app = build(app_name)
    other = await client.start(Target(app_name, "unknown"), id=f"{app_name}-r")
    async with DbosRuntime(postgres).running(app):
        handle = await client.start(app.target(tells), other.id, id=f"{app_name}-s")
        await at_the_message(held_up)
        await other.terminate()
        assert await handle.result(timeout=20) == "not-found"
