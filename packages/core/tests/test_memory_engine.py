"""The contract on the memory engine: steps, children, messages, state, time, lifecycle."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from iworkflow.core.client import Client
from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition, Target
from iworkflow.core.engines import engine
from iworkflow.core.errors import Failure, FlowError, Reason
from iworkflow.core.memory import MemoryClient, MemoryRuntime, MemoryStore, RealClock
from iworkflow.core.port import Status


@dataclass
class Lead:
    name: str
    tags: list[str]


Start = Callable[[AppDefinition], Awaitable[MemoryRuntime]]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def client(store: MemoryStore) -> AsyncIterator[Client]:
    async with MemoryClient(store) as client:
        yield client


@pytest.fixture
async def run(store: MemoryStore) -> AsyncIterator[Start]:
    """Start a worker for an app; it is stopped when the test ends."""
    runtimes: list[MemoryRuntime] = []

    async def start(app: AppDefinition) -> MemoryRuntime:
        runtime = MemoryRuntime(store)
        runtimes.append(runtime)
        await runtime.start(app)
        return runtime

    yield start
    for runtime in runtimes:
        await runtime.stop(0)


def app_of(*flows: Any, steps: Any = (), name: str = "app", **options: Any) -> AppDefinition:
    return AppDefinition(name, flows=list(flows), activities=list(steps), **options)


# Values and steps.


async def test_values_keep_their_types_and_are_not_shared(run: Start, client: Client) -> None:
    """A step gets an equal value, not the flow's own object; what it changes stays with it."""

    async def spoil(lead: Lead) -> Lead:
        lead.tags.append("spoiled")
        return lead

    async def flow(ctx: Context, lead: Lead) -> list[Lead]:
        spoiled = await ctx.step(spoil, lead)
        return [lead, spoiled]

    app = app_of(flow, steps=[spoil])
    await run(app)
    mine = Lead("x", ["a"])
    handle = await client.start(app.target(flow), mine, id="f")
    mine.tags.append("changed after the start")
    assert await handle.result() == [Lead("x", ["a"]), Lead("x", ["a", "spoiled"])]


async def test_a_sync_step_runs_while_other_flows_go_on(run: Start, client: Client) -> None:
    """A sync step runs in a thread, and virtual time stands still meanwhile."""

    def block() -> str:
        time.sleep(0.05)
        return "done"

    async def flow(ctx: Context) -> list[Any]:
        before = await ctx.now()
        done = await ctx.step(block)
        return [done, (await ctx.now() - before).total_seconds()]

    app = app_of(flow, steps=[block])
    await run(app)
    assert await (await client.start(app.target(flow), id="f")).result() == ["done", 0.0]


async def test_waits_between_attempts_are_virtual(run: Start, client: Client) -> None:
    """A step that is tried again after hours takes no real time, and the flow sees the hours."""
    tries: list[int] = []

    async def flaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise Failure("not yet")
        return len(tries)

    async def flow(ctx: Context) -> list[float]:
        begin = await ctx.now()
        made = await ctx.step(flaky, attempts=5, retry_interval=3600, backoff=2)
        return [made, (await ctx.now() - begin).total_seconds()]

    app = app_of(flow, steps=[flaky])
    await run(app)
    assert await (await client.start(app.target(flow), id="f")).result() == [3, 3 * 3600]


# Children.


async def test_a_child_of_an_app_that_is_down_is_waited_for(run: Start, client: Client) -> None:
    """The parent waits; once a worker of the other app comes up, it goes on."""

    async def enrich(ctx: Context, name: str) -> str:
        return name.upper()

    async def parent(ctx: Context) -> str:
        return await ctx.child(Target("iprofile", "enrich"), "ada", id="kid", result_type=str)

    app, other = app_of(parent), app_of(enrich, name="iprofile")
    await run(app)
    handle = await client.start(app.target(parent), id="f")
    while not await client.list(id_prefix="kid"):
        await asyncio.sleep(0.01)
    with pytest.raises(TimeoutError):
        await handle.result(timeout=0.05)
    kid = await client.handle("kid").describe()
    assert (kid.app, kid.parent_id, kid.status) == ("iprofile", "f", Status.RUNNING)
    await run(other)
    assert await handle.result() == "ADA"


async def test_a_failed_child_fails_its_parent_with_its_type(run: Start, client: Client) -> None:
    """Reason `failed`, the inner type and details, the child's id in the message."""

    async def kid(ctx: Context) -> None:
        raise Failure("no such person", type="Unknown", details={"id": 7})

    async def parent(ctx: Context) -> list[Any]:
        try:
            await ctx.child(kid, id="kid")
        except FlowError as error:
            return [error.reason, error.type, error.details, "kid" in str(error)]
        return []

    app = app_of(parent, kid)
    await run(app)
    handle = await client.start(app.target(parent), id="f")
    assert await handle.result() == ["failed", "Unknown", {"id": 7}, True]


async def test_a_child_outlives_its_parent(run: Start, client: Client) -> None:
    """A terminated parent leaves its child running."""

    async def kid(ctx: Context) -> str:
        await ctx.sleep(100)
        return "grown up"

    async def parent(ctx: Context) -> str:
        return await ctx.child(kid, id="kid")

    app = app_of(parent, kid)
    await run(app)
    handle = await client.start(app.target(parent), id="f")
    with pytest.raises(TimeoutError):
        await client.handle("f").result(timeout=0)
    while (await client.list(id_prefix="kid")) == []:
        await asyncio.sleep(0)
    await handle.terminate()
    assert await client.handle("kid").result() == "grown up"


async def test_ids_are_taken_once(run: Start, client: Client) -> None:
    """Attach gives the run that is there; reject, and another flow's id, are refused."""

    async def one(ctx: Context, n: int) -> int:
        return n

    async def two(ctx: Context, n: int) -> int:
        return n

    app = app_of(one, two)
    await run(app)
    first = await client.start(app.target(one), 1, id="f")
    second = await client.start(app.target(one), 2, id="f")
    assert (first.created, second.created) == (True, False)
    assert [await first.result(), await second.result()] == [1, 1]
    with pytest.raises(FlowError) as rejected:
        await client.start(app.target(one), 3, id="f", on_existing="reject")
    with pytest.raises(FlowError) as foreign:
        await client.start(app.target(two), 3, id="f")
    assert {rejected.value.reason, foreign.value.reason} == {Reason.ALREADY_STARTED}


# Messages and state.


async def _collect(ctx: Context, count: int) -> list[Any]:
    return [await ctx.recv("t") for _ in range(count)]


async def test_messages_come_in_order_and_once(run: Start, client: Client) -> None:
    """First in, first out; the same message id is delivered once; other topics stay apart."""
    app = AppDefinition("app", flows={"collect": _collect})
    await run(app)
    handle = await client.start(app.target("collect"), 3, id="f")
    await handle.signal("other", "x")
    for value, message_id in [("a", "1"), ("b", "2"), ("a", "1"), ("c", None)]:
        await handle.signal("t", value, message_id)
    assert await handle.result() == ["a", "b", "c"]


async def test_two_receivers_share_a_topic(run: Start, client: Client) -> None:
    """Each message goes to one of them, the first message to the first that asked."""

    async def flow(ctx: Context) -> list[Any]:
        return await asyncio.gather(ctx.recv("t"), ctx.recv("t"), ctx.recv("t", timeout=5))

    app = app_of(flow)
    await run(app)
    handle = await client.start(app.target(flow), id="f")
    await handle.signal("t", 1)
    await handle.signal("t", 2)
    assert await handle.result() == [1, 2, None]


async def test_a_receiver_that_loses_its_race_consumes_nothing(run: Start, client: Client) -> None:
    """The message is there for the next `recv`."""

    async def flow(ctx: Context) -> list[Any]:
        lost = False
        try:
            async with asyncio.timeout(60):
                await ctx.recv("t")
        except TimeoutError:
            lost = True
        await ctx.set_state("lost", lost)
        await ctx.recv("go")
        return [lost, await ctx.recv("t")]

    app = app_of(flow)
    await run(app)
    handle = await client.start(app.target(flow), id="f")
    while not await handle.query("lost"):
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.05)
    await handle.signal("t", "late")
    await handle.signal("go", None)
    assert await handle.result() == [True, "late"]


async def test_a_message_after_the_time_is_up_is_not_taken(run: Start, client: Client) -> None:
    """A `recv` whose time passed while no worker was up gives its default, not a later message."""
    store = client_store(client)

    async def flow(ctx: Context) -> list[Any]:
        first = await ctx.recv("t", timeout=10, default="none")
        return [first, await ctx.recv("t")]

    app = app_of(flow)
    runtime = await run(app)
    handle = await client.start(app.target(flow), id="f")
    while not store.runs["f"].begun:
        await asyncio.sleep(0)
    await runtime.stop(0)
    with store.clock.waiting():
        await store.clock.sleep(20)
    await handle.signal("t", "late")
    await run(app)
    assert await handle.result() == ["none", "late"]


def client_store(client: Client) -> MemoryStore:
    assert isinstance(client, MemoryClient)
    return client.store


async def test_missing_and_finished_flows_take_no_messages(run: Start, client: Client) -> None:
    """`not-found`, from a client and from a flow."""

    async def quick(ctx: Context) -> None:
        return None

    async def sender(ctx: Context, to: str) -> str:
        try:
            await ctx.signal(to, "t", 1)
        except FlowError as error:
            return str(error.reason)
        return "sent"

    app = app_of(quick, sender)
    await run(app)
    await (await client.start(app.target(quick), id="done")).result()
    for missing in ("nobody", "done"):
        with pytest.raises(FlowError) as caught:
            await client.handle(missing).signal("t", 1)
        assert caught.value.reason is Reason.NOT_FOUND
        handle = await client.start(app.target(sender), missing, id=f"to-{missing}")
        assert await handle.result() == "not-found"


async def test_signal_with_start(run: Start, client: Client) -> None:
    """Twenty at once make one flow with twenty messages; a finished id is `already-started`."""
    app = AppDefinition("app", flows={"collect": _collect})
    await run(app)
    target = app.target("collect")
    handles = await asyncio.gather(
        *(client.signal_with_start(target, 20, topic="t", value=n, id="f") for n in range(20))
    )
    assert sum(handle.created for handle in handles) == 1
    assert sorted(await handles[0].result()) == list(range(20))
    with pytest.raises(FlowError) as caught:
        await client.signal_with_start(target, 20, topic="t", value=0, id="f")
    assert caught.value.reason is Reason.ALREADY_STARTED


async def test_state_is_read_also_after_the_end(run: Start, client: Client) -> None:
    """The last value of a key, None for a missing key, `not-found` for a missing flow."""

    async def flow(ctx: Context) -> None:
        await ctx.set_state("k", 1)
        await ctx.set_state("k", {"n": [2]})
        raise Failure("at last")

    app = app_of(flow)
    await run(app)
    handle = await client.start(app.target(flow), id="f")
    with pytest.raises(FlowError):
        await handle.result()
    assert await handle.query("k") == {"n": [2]}
    assert await handle.query("other") is None
    with pytest.raises(FlowError) as caught:
        await client.handle("nobody").query("k")
    assert caught.value.reason is Reason.NOT_FOUND


# Lifecycle.


async def test_a_timeout_counts_without_a_worker(store: MemoryStore, client: Client) -> None:
    """With no worker at all, `result` and `describe` tell that the run timed out."""
    handle = await client.start(Target("app", "f"), id="f", timeout=timedelta(hours=1))
    with pytest.raises(FlowError) as caught:
        await handle.result()
    assert caught.value.reason is Reason.TIMEOUT
    assert (await handle.describe()).status is Status.TIMED_OUT
    assert store.clock.now() == store.runs["f"].deadline


async def test_past_its_deadline_a_flow_gets_nothing(run: Start, client: Client) -> None:
    """A flow that catches everything is timed out all the same, and records nothing more."""
    caught: list[str] = []

    async def flow(ctx: Context) -> str:
        while True:
            try:
                await ctx.sleep(7)
            except BaseException as error:
                caught.append(type(error).__name__)
                if isinstance(error, GeneratorExit):
                    raise

    app = app_of(flow)
    await run(app)
    handle = await client.start(app.target(flow), id="f", timeout=20)
    with pytest.raises(FlowError) as error:
        await handle.result()
    assert error.value.reason is Reason.TIMEOUT
    while not caught:
        await asyncio.sleep(0)
    assert caught == ["GeneratorExit"]
    assert len(client_store(client).runs["f"].history) == 3


async def test_terminate_cancels_a_running_step(run: Start, client: Client) -> None:
    """The step is cancelled at once and its result dropped; a second time nothing changes."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async def flow(ctx: Context) -> str:
        return await ctx.step(hang)

    app = app_of(flow, steps=[hang])
    await run(app)
    handle = await client.start(app.target(flow), id="f")
    await began.wait()
    await handle.terminate(reason="enough")
    await asyncio.wait_for(ended.wait(), 1)
    await handle.terminate(reason="again")
    with pytest.raises(FlowError, match="enough") as caught:
        await handle.result()
    assert caught.value.reason is Reason.TERMINATED
    assert client_store(client).runs["f"].history == {}


async def test_list_narrows_and_orders(run: Start, client: Client) -> None:
    """By prefix, app, flow, status, time and limit; newest first."""

    async def good(ctx: Context) -> None:
        return None

    async def bad(ctx: Context) -> None:
        raise ValueError("no")

    app = app_of(good, bad)
    await run(app)
    for number in range(3):
        handle = await client.start(app.target(good), id=f"good-{number}")
        await handle.result()
    with pytest.raises(FlowError) as caught:
        await (await client.start(app.target(bad), id="bad")).result()
    assert (caught.value.reason, caught.value.type) == (Reason.FAILED, "ValueError")

    async def ids(**narrow: Any) -> list[str]:
        return [one.id for one in await client.list(**narrow)]

    assert await ids() == ["bad", "good-2", "good-1", "good-0"]
    assert await ids(id_prefix="good", limit=2) == ["good-2", "good-1"]
    assert await ids(status="failed") == ["bad"]
    assert await ids(flow="good", status="failed") == []
    assert await ids(app="other") == []


async def test_a_waiter_that_gives_up_leaves_the_run_alone(run: Start, client: Client) -> None:
    """A cancelled or timed-out `result` changes nothing."""
    app = AppDefinition("app", flows={"collect": _collect})
    await run(app)
    handle = await client.start(app.target("collect"), 1, id="f")
    with pytest.raises(TimeoutError):
        await handle.result(timeout=0.01)
    waiter = asyncio.create_task(handle.result())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait([waiter])
    await handle.signal("t", "still here")
    assert await handle.result() == ["still here"]


# Workers.


async def test_an_unknown_flow_waits_for_a_worker_that_knows_it(
    run: Start, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once with the flows that are known; a newer worker takes it."""

    async def old(ctx: Context) -> str:
        return "old"

    async def new(ctx: Context) -> str:
        return "new"

    with caplog.at_level(logging.WARNING, "iworkflow.memory"):
        await run(app_of(old))
        handle = await client.start(Target("app", "new"), id="f")
        await client.start(Target("app", "new"), id="f")
    assert [r.getMessage() for r in caplog.records] == [
        (
            "no flow 'new' in app 'app' (flows: 'old'): "
            "run 'f' is left, it waits for a worker that knows it"
        )
    ]
    await run(app_of(old, new))
    assert await handle.result() == "new"


async def test_a_stopped_worker_hands_its_runs_over(run: Start, client: Client) -> None:
    """Another worker that is up goes on at once; recorded steps are not run again."""
    ran: list[str] = []

    async def effect() -> str:
        ran.append("effect")
        return "e"

    async def flow(ctx: Context) -> list[Any]:
        return [await ctx.step(effect), await ctx.recv("t")]

    app = app_of(flow, steps=[effect])
    first = await run(app)
    second = await run(app)
    handle = await client.start(app.target(flow), id="f")
    while not client_store(client).runs["f"].history:
        await asyncio.sleep(0)
    await second.stop(0)
    await first.stop(0)
    await run(app)
    await handle.signal("t", "m")
    assert await handle.result() == ["e", "m"]
    assert ran == ["effect"]


async def test_a_stop_lets_a_running_step_finish(run: Start, client: Client) -> None:
    """Within its grace the step ends and is recorded, and nothing new is begun."""
    ran: list[str] = []
    began = asyncio.Event()

    async def first() -> str:
        began.set()
        await asyncio.sleep(0.05)
        ran.append("first")
        return "1"

    async def second() -> str:
        ran.append("second")
        return "2"

    async def flow(ctx: Context) -> list[str]:
        return [await ctx.step(first), await ctx.step(second)]

    app = app_of(flow, steps=[first, second])
    runtime = await run(app)
    handle = await client.start(app.target(flow), id="f")
    await began.wait()
    await runtime.stop(5)
    assert ran == ["first"]
    assert len(client_store(client).runs["f"].history) == 1
    await run(app)
    assert await handle.result() == ["1", "2"]
    assert ran == ["first", "second"]


async def test_a_run_keeps_the_patches_it_was_born_with(run: Start, client: Client) -> None:
    """Code that declares a patch later does not change the answer for older runs."""

    async def flow(ctx: Context) -> bool:
        await ctx.recv("go")
        return await ctx.patched("p")

    old = AppDefinition("app", flows={"flow": _waits}, patches=[])
    new = AppDefinition("app", flows={"flow": flow}, patches=["p"])
    runtime = await run(old)
    before = await client.start(new.target("flow"), id="before")
    await runtime.stop(0)
    await run(new)
    after = await client.start(new.target("flow"), id="after")
    for handle in (before, after):
        await handle.signal("go", None)
    assert [await before.result(), await after.result()] == [False, True]


async def _waits(ctx: Context) -> bool:
    await ctx.recv("go")
    return False


async def test_a_code_change_parks_the_run(run: Start, client: Client) -> None:
    """It stays running; with the right code it goes on."""

    async def step_a() -> str:
        return "a"

    async def step_b() -> str:
        return "b"

    async def right(ctx: Context) -> list[Any]:
        return [await ctx.step(step_a), await ctx.recv("t")]

    async def wrong(ctx: Context) -> list[Any]:
        return [await ctx.step(step_b), await ctx.recv("t")]

    def version(flow: Any) -> AppDefinition:
        return AppDefinition("app", flows={"f": flow}, activities=[step_a, step_b])

    runtime = await run(version(right))
    handle = await client.start(Target("app", "f"), id="f")
    while not client_store(client).runs["f"].history:
        await asyncio.sleep(0)
    await runtime.stop(0)
    runtime = await run(version(wrong))
    await handle.signal("t", "m")
    with pytest.raises(TimeoutError):
        await handle.result(timeout=0.05)
    assert (await handle.describe()).status is Status.RUNNING
    await runtime.stop(0)
    await run(version(right))
    assert await handle.result() == ["a", "m"]


async def test_two_apps_signal_each_other(run: Start, client: Client) -> None:
    """Several runtimes on one store work side by side."""

    async def ping(ctx: Context) -> Any:
        await ctx.start_child(Target("app-b", "pong"), ctx.workflow_id, id="pong")
        return await ctx.recv("back")

    async def pong(ctx: Context, to: str) -> None:
        await ctx.signal(to, "back", "pong")

    a, b = app_of(ping, name="app-a"), app_of(pong, name="app-b")
    await run(a)
    await run(b)
    assert await (await client.start(a.target(ping), id="ping")).result() == "pong"


async def test_the_wall_clock_is_an_option() -> None:
    """On a `RealClock` a sleep takes its time, and a deadline comes on time."""
    store = MemoryStore(RealClock())

    async def flow(ctx: Context, seconds: float) -> float:
        begin = await ctx.now()
        await ctx.sleep(seconds)
        return (await ctx.now() - begin).total_seconds()

    app = app_of(flow)
    async with MemoryRuntime(store).running(app), MemoryClient(store) as client:
        handle = await client.start(app.target(flow), 0.05, id="f")
        assert 0.05 <= await handle.result() < 5
        late = await client.start(app.target(flow), 60.0, id="late", timeout=0.05)
        with pytest.raises(FlowError) as caught:
            await late.result()
        assert caught.value.reason is Reason.TIMEOUT


async def test_runtime_and_client_meet_by_default() -> None:
    """Without a store, both use the one of this process."""

    async def flow(ctx: Context) -> str:
        return "met"

    app = app_of(flow, name="meet-by-default")
    async with MemoryRuntime().running(app), MemoryClient() as client:
        handle = await client.start(app.target(flow), id="test-runtime-and-client-meet")
        assert await handle.result() == "met"


async def test_the_engine_is_found_by_its_name() -> None:
    """`engine("memory")` makes clients and runtimes with the settings of their classes."""
    store = MemoryStore()
    async with engine("memory").client(store=store) as client:
        assert await client.list() == []
    assert engine("memory").name == "memory"
    with pytest.raises(TypeError, match="stroe"):
        engine("memory").runtime(stroe=store)


async def test_flow_code_that_holds_the_loop_is_named(
    run: Start, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """A runtime watches for flow code that blocks for more than a second."""

    async def blocks(ctx: Context) -> None:
        end = time.monotonic() + 20
        while "holds the event" not in caplog.text and time.monotonic() < end:
            pass

    app = app_of(blocks)
    await run(app)
    await (await client.start(app.target(blocks), id="f")).result()
    assert "flow 'blocks' of run 'f' holds the event loop" in caplog.text


async def test_a_fault_of_the_engine_breaks_the_worker_not_the_flow(
    run: Start, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`done` raises it, the run stays running, and another worker goes on with it."""

    async def flow(ctx: Context) -> str:
        try:
            await ctx.set_state("k", 1)
        except BaseException as error:
            return f"the flow saw {type(error).__name__}"
        return "fine"

    def fault(*_: Any) -> None:
        raise OSError("the store is full")

    app = app_of(flow)
    runtime = await run(app)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "record", fault)
        handle = await client.start(app.target(flow), id="f")
        with pytest.raises(OSError, match="the store is full"):
            await runtime.done()
    assert (await handle.describe()).status is Status.RUNNING
    await runtime.stop(0)
    await run(app)
    assert await handle.result() == "fine"


async def test_runs_are_taken_by_priority_then_by_start(run: Start, client: Client) -> None:
    """A worker that comes up begins with the most urgent runs."""
    order: list[str] = []

    async def flow(ctx: Context) -> None:
        order.append(ctx.workflow_id)

    app = app_of(flow)
    for name, priority in [("low", 5), ("a", 3), ("high", 1), ("b", 3)]:
        await client.start(app.target(flow), id=name, priority=priority)
    await run(app)
    for name in ("low", "a", "high", "b"):
        await client.handle(name).result()
    assert order == ["high", "a", "b", "low"]


async def test_a_pool_limits_and_priority_decides(run: Start, client: Client) -> None:
    """One at a time in a pool of one; the more urgent waits less."""
    order: list[str] = []
    now: list[int] = [0, 0]

    async def paced(name: str) -> None:
        now[0] += 1
        now[1] = max(now)
        order.append(name)
        await asyncio.sleep(0)
        now[0] -= 1

    async def flow(ctx: Context) -> None:
        await asyncio.gather(
            *(ctx.step(paced, f"p{p}", pool="one", priority=p) for p in (3, 5, 1, 2))
        )

    app = app_of(flow, steps=[paced], pools={"one": 1})
    await run(app)
    await (await client.start(app.target(flow), id="f")).result()
    assert order == ["p3", "p1", "p2", "p5"]
    assert now == [0, 1]


async def test_a_payload_over_the_limit_is_refused(store: MemoryStore) -> None:
    """`max_payload` holds for the client's arguments and for a step's result alike."""

    async def big(n: int) -> str:
        return "x" * n

    async def flow(ctx: Context, n: int, text: str) -> int:
        return len(await ctx.step(big, n))

    app = app_of(flow, steps=[big])
    async with (
        MemoryRuntime(store, max_payload=1000).running(app),
        MemoryClient(store, max_payload=1000) as client,
    ):
        assert await (await client.start(app.target(flow), 900, "", id="fits")).result() == 900
        with pytest.raises(Failure) as refused:
            await client.start(app.target(flow), 1, "x" * 1000, id="args")
        with pytest.raises(FlowError) as failed:
            await (await client.start(app.target(flow), 1000, "", id="result")).result()
    assert (refused.value.type, failed.value.type) == ("PayloadTooLarge", "PayloadTooLarge")


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "2 MB"])
def test_a_limit_of_values_that_is_none(limit: Any) -> None:
    """Runtime and client refuse it when they are made."""
    for make in (MemoryRuntime, MemoryClient):
        with pytest.raises(ValueError, match="max_payload must be an integer of 1 or more"):
            make(max_payload=limit)
