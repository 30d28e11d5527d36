"""One worker in this process, on a real Postgres."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition, Target
from iworkflow.core.errors import Failure, FlowError, Reason
from iworkflow.core.port import Status
from iworkflow.core.steps import step_signal
from iworkflow.dbos import DbosClient, DbosRuntime

seen: list[str] = []


async def double(number: int) -> int:
    return 2 * number


def plus_one(number: int) -> int:
    return number + 1


async def child(ctx: Context, number: int) -> int:
    return await ctx.step(double, number)


async def much(ctx: Context, number: int) -> dict[str, Any]:
    doubled = await ctx.step(double, number)
    added = await ctx.step(plus_one, doubled)
    many = await asyncio.gather(*(ctx.step(double, i) for i in range(5)))
    await ctx.set_state("doubled", {"value": doubled})
    inner = await ctx.child(child, 7, id=f"{ctx.workflow_id}-child")
    await ctx.signal(ctx.workflow_id, "own", ["to", "myself"])
    return {"added": added, "many": many, "inner": inner, "own": await ctx.recv("own")}


async def fails(ctx: Context) -> None:
    raise Failure("no luck", type="Luck", details={"odds": 0.5})


async def collects(ctx: Context, topic: str, count: int) -> list[Any]:
    return [await ctx.recv(topic, timeout=20) for _ in range(count)]


async def waits(ctx: Context) -> str | None:
    return await ctx.recv("go", result_type=str)


async def stubborn(ctx: Context) -> str:
    while True:
        try:
            await ctx.sleep(0.05)
        except (Exception, asyncio.CancelledError):
            seen.append("caught")


async def long() -> str:
    signal = step_signal()
    seen.append("begun")
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        seen.append(f"cancelled {signal.cancelled} {time.monotonic()}")
        raise
    return "done"


async def runs_long(ctx: Context) -> str:
    return await ctx.step(long)


async def races(ctx: Context) -> list[Any]:
    """A receive that loses against a step."""
    received = asyncio.ensure_future(ctx.recv("late", result_type=str))
    await asyncio.wait({received}, timeout=0.2)
    received.cancel()
    await ctx.set_state("lost", True)
    await ctx.step(double, 1)
    await ctx.sleep(0.5)
    return [await ctx.recv("late", timeout=10), await ctx.recv("late", timeout=0.1)]


async def both(ctx: Context) -> list[str]:
    return sorted(await asyncio.gather(ctx.recv("pair"), ctx.recv("pair")))


async def patched(ctx: Context) -> list[Any]:
    before = await ctx.patched("new")
    await ctx.recv("go")
    return [before, await ctx.patched("new")]


async def unpatched(ctx: Context) -> list[Any]:
    await ctx.recv("go")
    return []


def build(app_name: str, **changes: Any) -> AppDefinition:
    flows: Any = [much, child, fails, collects, waits, stubborn, runs_long, races, both]
    return AppDefinition(
        app_name, **{"flows": flows, "activities": [double, plus_one, long], **changes}
    )


@pytest.fixture(autouse=True)
def _forget() -> None:
    seen.clear()


async def until(condition: Any, *, within: float = 20) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.02)


async def rows(postgres: str, sql: str, *args: Any) -> list[Any]:
    connection = await asyncpg.connect(postgres)
    try:
        return await connection.fetch(sql, *args)
    finally:
        await connection.close()


async def test_a_flow_with_everything(postgres: str, app_name: str, client: DbosClient) -> None:
    """Steps, branches, state, a child and messages; the rows are plain JSON."""
    app = build(app_name)
    async with DbosRuntime(postgres).running(app):
        handle = await client.start(app.target(much), 3, id=f"{app_name}-r", priority=2)
        assert await handle.result(timeout=30) == {
            "added": 7,
            "many": [0, 2, 4, 6, 8],
            "inner": 14,
            "own": ["to", "myself"],
        }
        assert await handle.query("doubled") == {"value": 6}
        assert await handle.query("other") is None
    described = await handle.describe()
    assert (described.status, described.priority, described.flow) == (Status.COMPLETED, 2, "much")
    inner = await client.handle(f"{app_name}-r-child").describe()
    assert (inner.parent_id, inner.priority) == (f"{app_name}-r", 2)
    kept = await rows(
        postgres,
        "SELECT serialization, application_version FROM dbos.workflow_status "
        "WHERE workflow_uuid = $1",
        handle.id,
    )
    assert [tuple(row) for row in kept] == [("portable_json", f"{app_name}-patching")]
    left = await rows(postgres, "SELECT 1 FROM iwf.claim WHERE workflow_id = $1", f"{app_name}-r")
    assert left == []


async def test_a_failed_flow(postgres: str, app_name: str, client: DbosClient) -> None:
    """Type and details reach whoever waits, and stand in DBOS's own row."""
    app = build(app_name)
    async with DbosRuntime(postgres).running(app):
        handle = await client.start(app.target(fails), id=f"{app_name}-r")
        with pytest.raises(FlowError) as caught:
            await handle.result(timeout=30)
    assert (caught.value.reason, caught.value.type) == (Reason.FAILED, "Luck")
    assert caught.value.details == {"odds": 0.5}
    stored = await rows(
        postgres, "SELECT error FROM dbos.workflow_output WHERE workflow_uuid = $1", handle.id
    )
    assert '"type":"Luck"' in stored[0]["error"]


async def test_messages_keep_their_order(postgres: str, app_name: str, client: DbosClient) -> None:
    """One after another in one millisecond, with ids that sort the other way: in order."""
    app = build(app_name)
    handle = await client.start(app.target(collects), "t", 20, id=f"{app_name}-r")
    for number in range(10):
        await handle.signal("t", number)
    for number in range(10, 20):
        await handle.signal("t", number, message_id=f"id-{99 - number}")
    await handle.signal("t", "again", message_id="id-89")
    async with DbosRuntime(postgres).running(app):
        assert await handle.result(timeout=30) == list(range(20))


async def test_losing_a_race_consumes_nothing(
    postgres: str, app_name: str, client: DbosClient
) -> None:
    """A message that comes after its receive was dropped is there for the next one, once."""
    app = build(app_name)
    async with DbosRuntime(postgres).running(app):
        handle = await client.start(app.target(races), id=f"{app_name}-r")
        while not await handle.query("lost"):
            await asyncio.sleep(0.05)
        await handle.signal("late", "message")
        assert await handle.result(timeout=30) == ["message", None]


async def test_two_receives_of_one_topic(postgres: str, app_name: str, client: DbosClient) -> None:
    """Each message goes to one of them."""
    app = build(app_name)
    async with DbosRuntime(postgres).running(app):
        handle = await client.start(app.target(both), id=f"{app_name}-r")
        await handle.signal("pair", "a")
        await handle.signal("pair", "b")
        assert await handle.result(timeout=30) == ["a", "b"]


async def test_a_message_of_another_program(
    postgres: str, app_name: str, client: DbosClient
) -> None:
    """Portable JSON is taken whoever sent it."""
    app = build(app_name)
    handle = await client.start(app.target(collects), "t", 1, id=f"{app_name}-r")
    await rows(
        postgres,
        "INSERT INTO dbos.notifications (destination_uuid, topic, message, serialization) "
        "VALUES ($1, 't', '{\"from\":\"npm\"}', 'portable_json')",
        handle.id,
    )
    async with DbosRuntime(postgres).running(app):
        assert await handle.result(timeout=30) == [{"from": "npm"}]


async def test_not_found(client: DbosClient, app_name: str, postgres: str) -> None:
    """What is missing or finished is `not-found`, at once."""
    missing = client.handle(f"{app_name}-missing")
    for call in (
        missing.result(timeout=5),
        missing.describe(),
        missing.query("key"),
        missing.signal("t", 1),
        missing.terminate(),
    ):
        with pytest.raises(FlowError) as caught:
            await call
        assert caught.value.reason is Reason.NOT_FOUND
    app = build(app_name)
    async with DbosRuntime(postgres).running(app):
        handle = await client.start(app.target(child), 1, id=f"{app_name}-r")
        await handle.result(timeout=30)
        with pytest.raises(FlowError) as caught:
            await handle.signal("t", 1)
        assert caught.value.reason is Reason.NOT_FOUND
        await handle.terminate()
        assert (await handle.describe()).status is Status.COMPLETED


async def test_ids(client: DbosClient, app_name: str) -> None:
    """An id names one run: attach, reject, and a run of another flow."""
    target = Target(app_name, "waits")
    first = await client.start(target, id=f"{app_name}-r")
    second = await client.start(target, id=f"{app_name}-r")
    assert (first.created, second.created) == (True, False)
    for other, options in ((target, {"on_existing": "reject"}), (Target(app_name, "much"), {})):
        with pytest.raises(FlowError) as caught:
            await client.start(other, id=f"{app_name}-r", **options)
        assert caught.value.reason is Reason.ALREADY_STARTED


async def test_signal_with_start(postgres: str, app_name: str, client: DbosClient) -> None:
    """Twenty at once make one run with twenty messages; afterwards the id is taken."""
    app = build(app_name)
    target = app.target(collects)
    async with DbosRuntime(postgres).running(app):
        handles = await asyncio.gather(
            *(
                client.signal_with_start(
                    target, "t", 20, topic="t", value=number, id=f"{app_name}-r"
                )
                for number in range(20)
            )
        )
        assert sum(handle.created for handle in handles) == 1
        assert sorted(await handles[0].result(timeout=30)) == list(range(20))
        with pytest.raises(FlowError) as caught:
            await client.signal_with_start(target, "t", 20, topic="t", value=0, id=f"{app_name}-r")
        assert caught.value.reason is Reason.ALREADY_STARTED


async def test_terminate_reaches_a_step(postgres: str, app_name: str, client: DbosClient) -> None:
    """The running step is cancelled long before its end; its run is `terminated`."""
    app = build(app_name)
    async with DbosRuntime(postgres).running(app):
        handle = await client.start(app.target(runs_long), id=f"{app_name}-r")
        await until(lambda: seen)
        begun = time.monotonic()
        await handle.terminate(reason="enough")
        with pytest.raises(FlowError) as caught:
            await handle.result(timeout=20)
        assert caught.value.reason is Reason.TERMINATED
        await until(lambda: len(seen) > 1)
        assert seen[1].startswith("cancelled True")
        assert time.monotonic() - begun < 10
        assert (await handle.describe()).status is Status.TERMINATED


async def test_a_deadline_without_a_worker(client: DbosClient, app_name: str) -> None:
    """`timed-out` is computed from the stored deadline, for describe, list and result."""
    target = Target(app_name, "waits")
    handle = await client.start(target, id=f"{app_name}-r", timeout=0.3)
    other = await client.start(target, id=f"{app_name}-s", timeout=0.1)
    with pytest.raises(FlowError) as caught:
        await handle.result(timeout=20)
    assert caught.value.reason is Reason.TIMEOUT
    listed = await client.list(app=app_name, status="timed-out")
    assert {run.id for run in listed} == {handle.id, other.id}
    await other.terminate()
    described = await other.describe()
    assert described.status is Status.TIMED_OUT
    assert described.closed_at is not None


async def test_a_flow_that_catches_everything(
    postgres: str, app_name: str, client: DbosClient
) -> None:
    """Past its deadline nothing is delivered into a flow, and `timed-out` is its end."""
    app = build(app_name)
    async with DbosRuntime(postgres).running(app):
        handle = await client.start(app.target(stubborn), id=f"{app_name}-r", timeout=1)
        with pytest.raises(FlowError) as caught:
            await handle.result(timeout=10)
        assert caught.value.reason is Reason.TIMEOUT


async def test_list(client: DbosClient, app_name: str) -> None:
    """Filters narrow; the newest comes first."""
    since = datetime.now(UTC) - timedelta(seconds=5)
    target = Target(app_name, "waits")
    ids = [f"{app_name}_a", f"{app_name}-a%1", f"{app_name}-a2", f"{app_name}-b"]
    for id in ids:
        await client.start(target, id=id)
    await client.handle(ids[3]).terminate()

    async def found(**filters: Any) -> list[str]:
        return [run.id for run in await client.list(**filters)]

    assert await found(app=app_name) == ids[::-1]
    assert await found(app=app_name, id_prefix=f"{app_name}-a") == [ids[2], ids[1]]
    assert await found(app=app_name, id_prefix=f"{app_name}-a%") == [ids[1]]
    assert await found(app=app_name, status="terminated") == [ids[3]]
    assert await found(app=app_name, flow="other") == []
    assert await found(app=app_name, since=since, limit=2) == ids[:1:-1]
    assert await found(app=app_name, since=since + timedelta(seconds=60)) == []


async def test_an_unknown_flow_is_left_for_another_worker(
    postgres: str, app_name: str, client: DbosClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes back to the queue, with the names known in the log; its birth is not spoilt."""
    handle = await client.start(Target(app_name, "patched"), id=f"{app_name}-r")
    with caplog.at_level(logging.WARNING, "iworkflow.dbos"):
        async with DbosRuntime(postgres).running(build(app_name)):
            await until(lambda: f"no flow 'patched' in app '{app_name}'" in caplog.text)
    assert "'waits'" in caplog.text
    await handle.signal("go", None)
    async with DbosRuntime(postgres).running(build(app_name, flows=[patched], patches=["new"])):
        assert await handle.result(timeout=30) == [True, True]


async def test_a_run_keeps_the_version_it_was_born_with(
    postgres: str, app_name: str, client: DbosClient
) -> None:
    """A patch counts for runs that were first dispatched under code that declares it."""
    old = await client.start(Target(app_name, "patched"), id=f"{app_name}-r")
    flows = {"patched": unpatched}
    async with DbosRuntime(postgres).running(build(app_name, flows=flows)):
        await until_recorded_status(postgres, old.id, "PENDING")
        await asyncio.sleep(0.3)
    async with DbosRuntime(postgres).running(build(app_name, flows=[patched], patches=["new"])):
        new = await client.start(Target(app_name, "patched"), id=f"{app_name}-s")
        await old.signal("go", None)
        await new.signal("go", None)
        assert await old.result(timeout=30) == [False, False]
        assert await new.result(timeout=30) == [True, True]


async def test_one_worker_in_a_process(postgres: str, app_name: str) -> None:
    """A second one is refused and told why; after a stop the place is free."""
    async with DbosRuntime(postgres).running(build(app_name)):
        with pytest.raises(RuntimeError, match="a DBOS worker runs in this process already"):
            await DbosRuntime(postgres).start(build(f"{app_name}-2"))
    async with DbosRuntime(postgres).running(build(f"{app_name}-2")):
        assert await asyncio.to_thread(lambda: 1) == 1
    assert await asyncio.to_thread(lambda: 2) == 2


async def test_a_deleted_queue_breaks_the_worker(
    postgres: str, app_name: str, client: DbosClient
) -> None:
    """`done` raises what broke the worker."""
    runtime = DbosRuntime(postgres)
    await runtime.start(build(app_name))
    await rows(postgres, "DELETE FROM dbos.queues WHERE name = $1", app_name)
    with pytest.raises(RuntimeError, match="was deleted"):
        await asyncio.wait_for(runtime.done(), 10)
    await runtime.stop()


async def until_recorded_status(postgres: str, run: str, status: str) -> None:
    async with asyncio.timeout(20):
        while not await rows(
            postgres,
            "SELECT 1 FROM dbos.workflow_status WHERE workflow_uuid = $1 AND status = $2",
            run,
            status,
        ):
            await asyncio.sleep(0.02)
