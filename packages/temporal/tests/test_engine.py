"""One worker in this process, on a real server; cached, and replaying at every step."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import iwf_temporal_flows as flows
import iwf_temporal_steps as steps
import pytest
from temporalio.client import Client as RawClient

from iworkflow.core import AppDefinition, FlowError, Reason, Status, Target
from iworkflow.temporal import TemporalClient, TemporalRuntime, host

Start = Callable[..., TemporalRuntime]


@pytest.fixture(params=[1000, 0], ids=["cached", "uncached"])
def runtime(request: pytest.FixtureRequest, server: str) -> Start:
    """Makes runtimes on the server."""

    def make(**options: Any) -> TemporalRuntime:
        return TemporalRuntime(server, max_cached_workflows=request.param, **options)

    return make


def build(app_name: str, **changes: Any) -> AppDefinition:
    listed = [
        flows.much,
        flows.child,
        flows.typed,
        flows.fails,
        flows.crashes,
        flows.catches,
        flows.collects,
        flows.waits,
        flows.stubborn,
        flows.runs_long,
        flows.races,
        flows.both,
        flows.abandons,
        flows.attaches,
        flows.clocked,
        flows.logs,
        flows.retries,
        flows.blocks,
    ]
    activities = [
        steps.double,
        steps.plus_one,
        steps.long,
        steps.final,
        steps.always,
        steps.hangs,
        steps.fails_until,
        steps.block,
    ]
    options: dict[str, Any] = {"flows": listed, "activities": activities, "pools": {"paced": 2}}
    return AppDefinition(app_name, **{**options, **changes})


@pytest.fixture(autouse=True)
def _forget() -> None:
    steps.seen.clear()
    steps.begun.clear()


async def until(condition: Any, *, within: float = 20) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.02)


async def failure(call: Any) -> FlowError:
    with pytest.raises(FlowError) as caught:
        await call
    return caught.value


async def test_a_flow_with_everything(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """Steps, branches, time, state, children and messages; ended, it still answers queries."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.much), 3, id=f"{app_name}-r", priority=2)
        assert await handle.result(timeout=30) == {
            "added": 7,
            "many": [0, 2, 4, 6, 8],
            "slept": True,
            "inner": [14, 14],
            "own": ["to", "myself"],
            "none": None,
            "paced": 8,
            "uuid": True,
        }
        assert await handle.query("doubled") == {"value": 6}
        assert await handle.query("other") is None
    described = await handle.describe()
    assert (described.status, described.priority, described.flow) == (Status.COMPLETED, 2, "much")
    assert described.closed_at is not None
    inner = await client.handle(f"{app_name}-r-child").describe()
    assert (inner.parent_id, inner.priority) == (f"{app_name}-r", 2)


async def test_the_wire_is_plain(server: str, app_name: str, client: TemporalClient) -> None:
    """Temporal's own client sees the step's name, its arguments first, and plain JSON."""
    app = build(app_name)
    raw = await RawClient.connect(server)
    async with TemporalRuntime(server).running(app):
        handle = await client.start(app.target(flows.child), 21, id=f"{app_name}-r")
        assert await raw.get_workflow_handle(handle.id).result() == 42
    history = await raw.get_workflow_handle(handle.id).fetch_history()
    [step] = [
        event.activity_task_scheduled_event_attributes
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert step.activity_type.name == "double"
    assert step.input.payloads[0].data == b"21"
    assert step.input.payloads[0].metadata["encoding"] == b"json/plain"
    assert step.activity_id.partition("-")[0].isdigit()


async def test_a_class_defined_next_to_the_flows(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """The sandbox has its own copy of it; what comes back is of the one outside."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.typed), flows.Order("ada"), id=f"{app_name}-r")
        assert await handle.result(timeout=30) == flows.Order("ADA", 2)


async def test_failed_flows(runtime: Start, app_name: str, client: TemporalClient) -> None:
    """A failure and any other exception fail the flow once, with type and details."""
    app = build(app_name)
    async with runtime().running(app):
        luck = await client.start(app.target(flows.fails), id=f"{app_name}-r")
        lost = await client.start(app.target(flows.crashes), id=f"{app_name}-s")
        error = await failure(luck.result(timeout=30))
        assert (error.reason, error.type, error.details) == (Reason.FAILED, "Luck", {"odds": 0.5})
        assert str(error) == "no luck"
        error = await failure(lost.result(timeout=30))
        assert (error.reason, error.type) == (Reason.FAILED, "KeyError")
        assert (await lost.describe()).status is Status.FAILED


async def test_errors_inside_a_flow(runtime: Start, app_name: str, client: TemporalClient) -> None:
    """Final, exhausted, out of time, too slow; a child that fails or is late; nobody there."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.catches), id=f"{app_name}-r")
        assert await handle.result(timeout=30) == [
            ["failed", "Boom", {"a": 1}, False],
            ["failed", "ValueError", None, True],
            ["timeout", "ValueError", None, False],
            ["timeout", None, None, True],
            ["failed", "Luck", {"odds": 0.5}, False],
            ["timeout", None, None, False],
            ["already-started", None, None, False],
            ["not-found", None, None, False],
        ]


async def test_messages_keep_their_order(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """One after another, sent before a worker is there: in order, and an id once."""
    app = build(app_name)
    handle = await client.start(app.target(flows.collects), "t", 20, id=f"{app_name}-r")
    for number in range(10):
        await handle.signal("t", number)
    for number in range(10, 20):
        await handle.signal("t", number, message_id=f"id-{99 - number}")
    await handle.signal("t", "again", message_id="id-89")
    async with runtime().running(app):
        assert await handle.result(timeout=30) == list(range(20))


async def test_a_topic_with_a_name_that_temporal_keeps(
    server: str, app_name: str, client: TemporalClient
) -> None:
    """Any topic is one, also `__temporal_x`."""
    app = build(app_name)
    handle = await client.start(app.target(flows.collects), "__temporal_x", 1, id=f"{app_name}-r")
    await handle.signal("__temporal_x", "kept")
    async with TemporalRuntime(server).running(app):
        assert await handle.result(timeout=30) == ["kept"]


async def test_losing_a_race_consumes_nothing(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """A message that comes after its receive was dropped is there for the next one, once."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.races), id=f"{app_name}-r")
        while not await handle.query("lost"):
            await asyncio.sleep(0.05)
        await handle.signal("late", "message")
        assert await handle.result(timeout=30) == ["message", None]


async def test_two_receives_of_one_topic(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """Each message goes to one of them."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.both), id=f"{app_name}-r")
        await handle.signal("pair", "a")
        await handle.signal("pair", "b")
        assert await handle.result(timeout=30) == ["a", "b"]


async def test_a_group_that_is_aborted(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """A timeout cancels the step and the group; clean-ups run steps; a `wait` follows."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.abandons), id=f"{app_name}-r")
        assert await handle.result(timeout=30) == "[0, 2, 4] [0, 2, 4]"
        await until(lambda: steps.seen == ["cancelled True"])


async def test_a_run_of_somebody_else_is_attached_to(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """A parent waits for a run that is not its child, running or finished."""
    app = build(app_name)
    async with runtime().running(app):
        other = await client.start(app.target(flows.waits), id=f"{app_name}-o")
        target = app.target(flows.attaches)
        first = await client.start(target, f"{app_name}/{other.id}", id=f"{app_name}-r")
        await asyncio.sleep(0.3)
        await other.signal("go", "went")
        assert await first.result(timeout=30) == ["went"]
        second = await client.start(target, f"{app_name}/{other.id}", id=f"{app_name}-s")
        assert await second.result(timeout=30) == ["went"]


async def test_not_found(server: str, client: TemporalClient, app_name: str) -> None:
    """What is missing or finished is `not-found`, at once."""
    missing = client.handle(f"{app_name}-missing")
    for call in (
        missing.result(timeout=5),
        missing.describe(),
        missing.query("key"),
        missing.signal("t", 1),
        missing.terminate(),
    ):
        assert (await failure(call)).reason is Reason.NOT_FOUND
    app = build(app_name)
    async with TemporalRuntime(server).running(app):
        handle = await client.start(app.target(flows.child), 1, id=f"{app_name}-r")
        await handle.result(timeout=30)
        assert (await failure(handle.signal("t", 1))).reason is Reason.NOT_FOUND
        await handle.terminate()
        assert (await handle.describe()).status is Status.COMPLETED


async def test_ids(client: TemporalClient, app_name: str) -> None:
    """An id names one run: attach, reject, a run of another flow, fifty at once."""
    target = Target(app_name, "waits")
    made = await asyncio.gather(*(client.start(target, id=f"{app_name}-r") for _ in range(50)))
    assert sum(handle.created for handle in made) == 1
    for other, options in ((target, {"on_existing": "reject"}), (Target(app_name, "much"), {})):
        error = await failure(client.start(other, id=f"{app_name}-r", **options))
        assert error.reason is Reason.ALREADY_STARTED


async def test_signal_with_start(runtime: Start, app_name: str, client: TemporalClient) -> None:
    """Twenty at once make one run with twenty messages; afterwards the id is taken."""
    app = build(app_name)
    target = app.target(flows.collects)
    async with runtime().running(app):
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
        call = client.signal_with_start(target, "t", 20, topic="t", value=0, id=f"{app_name}-r")
        assert (await failure(call)).reason is Reason.ALREADY_STARTED


async def test_terminate_reaches_a_step(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """The running step is cancelled long before its end; the state is still to be had."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.runs_long), id=f"{app_name}-r")
        await until(lambda: steps.begun)
        begun = time.monotonic()
        await handle.terminate(reason="enough")
        error = await failure(handle.result(timeout=20))
        assert error.reason is Reason.TERMINATED
        assert str(error) == f"flow '{app_name}-r' was terminated: enough"
        await until(lambda: steps.seen)
        assert time.monotonic() - begun < 10
        assert steps.seen == ["cancelled True"]
        assert (await handle.describe()).status is Status.TERMINATED
        assert await handle.query("at") == "begin"


async def test_a_deadline_without_a_worker(client: TemporalClient, app_name: str) -> None:
    """A run times out though nothing runs it."""
    handle = await client.start(Target(app_name, "waits"), id=f"{app_name}-r", timeout=1)
    error = await failure(handle.result(timeout=10))
    assert error.reason is Reason.TIMEOUT
    assert (await handle.describe()).status is Status.TIMED_OUT


async def test_a_flow_that_catches_everything(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """Past its deadline nothing is delivered into a flow, and `timed-out` is its end."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.stubborn), id=f"{app_name}-r", timeout=1)
        assert (await failure(handle.result(timeout=10))).reason is Reason.TIMEOUT


async def test_list(client: TemporalClient, app_name: str) -> None:
    """Filters narrow; the newest comes first."""
    since = datetime.now(UTC) - timedelta(seconds=5)
    target = Target(app_name, "waits")
    ids = [f"{app_name}_a", f"{app_name}-a%1'", f"{app_name}-a2", f"{app_name}-b"]
    for id in ids:
        await client.start(target, id=id)
    await client.handle(ids[3]).terminate()

    async def found(**filters: Any) -> list[str]:
        return [run.id for run in await client.list(**filters)]

    async with asyncio.timeout(10):
        while await found(app=app_name, status="terminated") != [ids[3]]:
            await asyncio.sleep(0.05)
    assert await found(app=app_name) == ids[::-1]
    assert await found(app=app_name, id_prefix=f"{app_name}-a") == [ids[2], ids[1]]
    assert await found(app=app_name, id_prefix=f"{app_name}-a%1'") == [ids[1]]
    assert await found(app=app_name, status="timed-out") == []
    assert await found(app=app_name, flow="other") == []
    assert await found(app=app_name, since=since, limit=2) == ids[:1:-1]
    assert await found(app=app_name, since=since + timedelta(seconds=60)) == []


async def test_an_unknown_flow_is_left_for_another_worker(
    server: str, app_name: str, client: TemporalClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays, with the names known in the log; its birth is not spoilt."""
    handle = await client.start(Target(app_name, "patched"), id=f"{app_name}-r")
    with caplog.at_level(logging.WARNING, "iworkflow.temporal"):
        async with TemporalRuntime(server).running(build(app_name)):
            await until(lambda: f"no flow 'patched' in app '{app_name}'" in caplog.text)
    assert "'waits'" in caplog.text
    await handle.signal("go", None)
    app = build(app_name, flows=[flows.patched], patches=["new"])
    async with TemporalRuntime(server).running(app):
        assert await handle.result(timeout=30) == [True, True]


async def test_a_run_keeps_the_version_it_was_born_with(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """A patch counts for runs that were first dispatched under code that declares it."""
    old = await client.start(Target(app_name, "patched"), id=f"{app_name}-r")
    async with runtime().running(build(app_name, flows={"patched": flows.unpatched})):
        await old.query("anything")
    async with runtime().running(build(app_name, flows=[flows.patched], patches=["new"])):
        new = await client.start(Target(app_name, "patched"), id=f"{app_name}-s")
        last = await client.start(Target(app_name, "patched"), id=f"{app_name}-t")
        await last.query("anything")
        await old.signal("go", None)
        await new.signal("go", None)
        assert await old.result(timeout=30) == [False, False]
        assert await new.result(timeout=30) == [True, True]
    async with runtime().running(build(app_name, flows={"patched": flows.unpatched})):
        await last.signal("go", None)
        assert await last.result(timeout=30) == []


async def test_an_older_run_is_parked_until_its_code_is_back(
    server: str, app_name: str, client: TemporalClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A run born before a patch that is deprecated: loud, running, and it goes on by itself."""
    handle = await client.start(Target(app_name, "patched"), id=f"{app_name}-r")
    old = build(app_name, flows={"patched": flows.unpatched})
    async with TemporalRuntime(server).running(old):
        await handle.query("anything")
    await handle.signal("go", None)
    app = build(app_name, flows={"patched": flows.deprecated}, patches=["new"])
    with caplog.at_level(logging.ERROR, "iworkflow.flow"):
        async with TemporalRuntime(server).running(app):
            await until(lambda: "patch 'new' is deprecated" in caplog.text)
    assert (await handle.describe()).status is Status.RUNNING
    async with TemporalRuntime(server).running(old):
        assert await handle.result(timeout=40) == []


async def test_a_change_that_does_not_fit_parks_the_run(
    server: str, app_name: str, client: TemporalClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names place, recorded and asked; under the old code the run goes on."""

    def app(flow: Any) -> AppDefinition:
        return build(app_name, flows={"order": flow})

    handle = await client.start(Target(app_name, "order"), id=f"{app_name}-r")
    async with TemporalRuntime(server).running(app(flows.old_order)):
        await handle.query("anything")
        await asyncio.sleep(0.5)
    await handle.signal("go", None)
    line = (
        f"flow '{app_name}-r' parked at operation 1: recorded step 'double', "
        "the code asks for 'plus_one'"
    )
    with caplog.at_level(logging.ERROR, "iworkflow.temporal"):
        async with TemporalRuntime(server).running(app(flows.new_order)):
            await until(lambda: line in caplog.text)
    assert (await handle.describe()).status is Status.RUNNING
    async with TemporalRuntime(server).running(app(flows.old_order)):
        assert await handle.result(timeout=40) == [2, 2]


async def test_the_clock_is_refused(runtime: Start, app_name: str, client: TemporalClient) -> None:
    """A flow that reads the clock fails at once, and its error names line, call and the way out."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.clocked), id=f"{app_name}-r")
        error = await failure(handle.result(timeout=30))
        line = inspect.getsourcelines(flows.clocked)[1] + 1
        assert str(error) == (
            f"iwf_temporal_flows.py:{line}: time.time() in a flow is not replay-stable; "
            'use "await ctx.now()"'
        )


async def test_a_log_line_is_written_once(
    runtime: Start, app_name: str, client: TemporalClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A replay is silent."""
    app = build(app_name)
    with caplog.at_level(logging.WARNING, "iworkflow.flow"):
        async with runtime().running(app):
            handle = await client.start(app.target(flows.logs), id=f"{app_name}-r")
            await handle.result(timeout=30)
            await handle.query("anything")
    assert caplog.text.count("said once") == 1


async def test_attempts_are_counted(runtime: Start, app_name: str, client: TemporalClient) -> None:
    """The number of an attempt goes through the server."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.retries), id=f"{app_name}-r")
        assert await handle.result(timeout=30) == 3


async def test_a_held_up_loop_is_not_death(
    server: str, app_name: str, client: TemporalClient
) -> None:
    """The beat comes from a thread: a step that blocks the event loop runs once."""
    app = build(app_name)
    async with TemporalRuntime(server, silent_after=5).running(app):
        handle = await client.start(app.target(flows.blocks), id=f"{app_name}-r")
        assert await handle.result(timeout=40) == "blocked"
        assert steps.seen == ["blocking"]


async def test_a_query_that_nobody_answers(client: TemporalClient, app_name: str) -> None:
    """Without a worker the error names the app."""
    handle = await client.start(Target(app_name, "waits"), id=f"{app_name}-r")
    with pytest.raises(RuntimeError, match=f"no worker of app '{app_name}' answers"):
        await handle.query("key")


async def test_at_most_so_many_at_once(server: str, app_name: str, client: TemporalClient) -> None:
    """A pool of two in a process of three: over all queues three, in the pool two."""
    app = build(
        app_name,
        flows=[flows.crowds],
        activities=[steps.counted],
        pools={"paced": 2},
        max_concurrent_steps=3,
    )
    steps.most[0] = steps.running[0] = 0
    async with TemporalRuntime(server).running(app):
        target = app.target(flows.crowds)
        paced = await client.start(target, "paced", 10, id=f"{app_name}-r")
        assert await paced.result(timeout=30) == list(range(10))
        assert steps.most[0] == 2
        both = [
            await client.start(target, pool, 15, id=f"{app_name}-{pool}")
            for pool in ("paced", None)
        ]
        for handle in both:
            assert await handle.result(timeout=30) == list(range(15))
        assert steps.most[0] == 3


async def test_a_backlog_goes_by_priority(
    server: str, app_name: str, client: TemporalClient
) -> None:
    """In a full pool the first priority is next; the server may have one task in hand."""
    app = build(app_name, flows=[flows.backlog], activities=[steps.counted], pools={"single": 1})
    async with TemporalRuntime(server).running(app):
        handle = await client.start(app.target(flows.backlog), id=f"{app_name}-r")
        await until(lambda: steps.seen)
        await handle.signal("go", None)
        assert await handle.result(timeout=30) == 0
        assert steps.seen[0] == "0"
        assert sorted(steps.seen[2:4]) == ["1", "1"]
        assert sorted(steps.seen[5:]) == ["5", "5"]


async def test_a_wide_fan_out(runtime: Start, app_name: str, client: TemporalClient) -> None:
    """A hundred and fifty steps at once, by index."""
    app = build(app_name, flows=[flows.crowds], activities=[steps.counted])
    async with runtime().running(app):
        handle = await client.start(app.target(flows.crowds), None, 150, id=f"{app_name}-r")
        assert await handle.result(timeout=50) == list(range(150))


async def test_a_long_history_is_warned_about(
    server: str,
    app_name: str,
    client: TemporalClient,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once, with what to do, well before Temporal ends the run."""
    monkeypatch.setattr(host, "LONG_HISTORY", 20)
    app = build(app_name)
    with caplog.at_level(logging.WARNING, "iworkflow.temporal"):
        async with TemporalRuntime(server).running(app):
            handle = await client.start(app.target(flows.much), 3, id=f"{app_name}-r")
            await handle.result(timeout=30)
    assert caplog.text.count("move parts of it into children") == 1
