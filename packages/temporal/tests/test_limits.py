"""What one run may ask for at once, what it is refused, and what the server is not told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import iwf_temporal_flows as flows
import iwf_temporal_steps as steps
import pytest
from temporalio.client import Client as RawClient
from temporalio.client import (
    FailAsyncActivityInput,
    HeartbeatAsyncActivityInput,
    Interceptor,
    OutboundInterceptor,
)
from temporalio.service import RPCError, RPCStatusCode

from iworkflow.core import AppDefinition, FlowError, Status
from iworkflow.temporal import (
    TemporalClient,
    TemporalRuntime,
    dev,
    load,
    pending,
)
from iworkflow.temporal import client as clients
from iworkflow.temporal.heart import BEAT

Start = Callable[..., TemporalRuntime]
MOST = 5


@pytest.fixture(params=[1000, 0], ids=["cached", "uncached"])
def runtime(request: pytest.FixtureRequest, server: str) -> Start:
    """Makes runtimes on the server."""

    def make(**options: Any) -> TemporalRuntime:
        return TemporalRuntime(server, max_cached_workflows=request.param, **options)

    return make


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what a run may have under way of each sort small."""
    monkeypatch.setattr(pending, "MOST", MOST)


def build(app_name: str, **changes: Any) -> AppDefinition:
    options: dict[str, Any] = {
        "flows": [
            flows.crowds,
            flows.releases,
            flows.waits,
            flows.gives_up,
            flows.late,
            flows.tells,
            flows.tells_one,
            flows.breaks_off,
            flows.collects,
        ],
        "activities": [steps.counted, steps.hangs],
    }
    return AppDefinition(app_name, **{**options, **changes})


@pytest.fixture(autouse=True)
def _forget() -> None:
    steps.seen.clear()
    steps.most[0] = steps.running[0] = 0


@pytest.mark.usefixtures("few")
async def test_steps_beyond_the_limit_wait_for_their_turn(
    runtime: Start, app_name: str, client: TemporalClient, caplog: pytest.LogCaptureFixture
) -> None:
    """No more than the limit are under way, in their order; a line says so, once."""
    with caplog.at_level(logging.WARNING, "iworkflow.temporal"):
        async with runtime().running(build(app_name)):
            handle = await client.start(
                build(app_name).target(flows.crowds), None, 17, id=f"{app_name}-r"
            )
            assert await handle.result(timeout=40) == list(range(17))
    assert steps.most[0] <= MOST
    assert sorted(steps.seen[:MOST], key=int) == [str(n) for n in range(MOST)]
    assert caplog.text.count(f"flow '{app_name}-r' has {MOST} steps") == 1


@pytest.mark.usefixtures("few")
async def test_children_beyond_the_limit_wait_for_the_end_of_one(
    runtime: Start, app_name: str, client: TemporalClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Meanwhile the run takes messages and makes steps; released, each child runs once."""
    app = build(app_name)
    with caplog.at_level(logging.WARNING, "iworkflow.temporal"):
        async with runtime().running(app):
            handle = await client.start(app.target(flows.releases), 12, id=f"{app_name}-r")
            await handle.signal("ping", 7)
            async with asyncio.timeout(20):
                while await handle.query("pong") != 7:
                    await asyncio.sleep(0.05)
            started = await client.list(app=app_name, flow="waits")
            assert len(started) <= MOST
            await handle.signal("release", None)
            assert await handle.result(timeout=40) == ["free"] * 12
    assert caplog.text.count(f"flow '{app_name}-r' has {MOST} children") == 1


@pytest.mark.usefixtures("few")
async def test_one_that_gives_up_waiting_frees_its_turn(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """Steps that run and steps that wait are dropped; those behind them go on."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.gives_up), MOST, id=f"{app_name}-r")
        assert await handle.result(timeout=40) == list(range(2 * MOST))


@pytest.mark.usefixtures("few")
async def test_a_flow_that_fails_begins_nothing_more(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """It ends at once, though the children it has keep those that wait from starting."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.breaks_off), 2 * MOST, id=f"{app_name}-r")
        with pytest.raises(FlowError, match="enough"):
            await handle.result(timeout=20)
        assert len(await client.list(app=app_name, flow="waits")) <= MOST


@pytest.mark.usefixtures("few")
async def test_the_total_timeout_counts_from_the_asking(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """A step whose `total_timeout` passes while it waits for its turn is never attempted."""
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.late), MOST, id=f"{app_name}-r")
        assert await handle.result(timeout=40) == [
            "timeout",
            "total_timeout of 0.4 s leaves no time after 0 attempts",
        ]
    assert "99" not in steps.seen


@pytest.mark.usefixtures("few")
async def test_messages_beyond_the_limit_wait_for_their_turn(
    runtime: Start, app_name: str, client: TemporalClient
) -> None:
    """Each arrives once, and one that finds nobody frees its turn."""
    app = build(app_name)
    async with runtime().running(app):
        other = await client.start(app.target(flows.collects), "t", 12, id=f"{app_name}-o")
        handle = await client.start(app.target(flows.tells), other.id, 12, id=f"{app_name}-r")
        assert await handle.result(timeout=40) == 12
        assert sorted(await other.result(timeout=40)) == list(range(12))


async def test_many_steps_are_asked_for_in_several_tasks(
    runtime: Start, app_name: str, client: TemporalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task that asks for thousands computes for so long that Temporal holds it for dead."""
    monkeypatch.setattr(load, "MOST", 3)
    app = build(app_name)
    async with runtime().running(app):
        handle = await client.start(app.target(flows.crowds), None, 10, id=f"{app_name}-r")
        assert await handle.result(timeout=40) == list(range(10))


class _LostBeats(Interceptor, OutboundInterceptor):
    """Loses each beat on its way to the server."""

    def __init__(self) -> None:
        self.next: Any = None

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        self.next = next
        return self

    async def heartbeat_async_activity(self, input: HeartbeatAsyncActivityInput) -> None:
        raise RPCError("lost", RPCStatusCode.UNAVAILABLE, b"")


@pytest.mark.parametrize("attempts", [2, 3])
async def test_an_attempt_counts_though_its_beats_are_lost(
    server: str, app_name: str, client: TemporalClient, attempts: int
) -> None:
    """Its failure brings the count, and what it reported, to the next attempt."""
    raw = await RawClient.connect(server, interceptors=[_LostBeats()])
    app = build(app_name, flows=[flows.tries], activities=[steps.reports_and_fails])
    async with TemporalRuntime(client=raw).running(app):
        handle = await client.start(app.target(flows.tries), attempts, id=f"{app_name}-r")
        assert await handle.result(timeout=20) == "exhausted"
    assert steps.seen == [f"{n + 1} after {n or None}" for n in range(attempts)]


class _LateBeat(Interceptor, OutboundInterceptor):
    """Holds the second beat on its way until a failure comes by, or for a second."""

    def __init__(self) -> None:
        self.next: Any = None
        self._beats = 0
        self._sent = asyncio.Event()
        self._overtaken = asyncio.Event()

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        self.next = next
        return self

    async def heartbeat_async_activity(self, input: HeartbeatAsyncActivityInput) -> None:
        self._beats += 1
        if self._beats == 2:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._overtaken.wait(), 1)
            await self.next.heartbeat_async_activity(input)
            self._sent.set()
        else:
            await self.next.heartbeat_async_activity(input)

    async def fail_async_activity(self, input: FailAsyncActivityInput) -> None:
        self._overtaken.set()
        await self._sent.wait()
        await self.next.fail_async_activity(input)


async def test_a_late_beat_undoes_no_count(
    server: str, app_name: str, client: TemporalClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an attempt told of its end stays, though an earlier beat is still on its way."""
    monkeypatch.setenv("TEST_FAILS_AFTER", str(BEAT + 0.2))
    raw = await RawClient.connect(server, interceptors=[_LateBeat()])
    app = build(app_name, flows=[flows.tries], activities=[steps.reports_and_fails])
    async with TemporalRuntime(client=raw).running(app):
        handle = await client.start(app.target(flows.tries), 2, id=f"{app_name}-r")
        assert await handle.result(timeout=20) == "exhausted"
    assert steps.seen == ["1 after None", "2 after 1"]


@pytest.mark.timeout(150)
async def test_a_run_that_takes_no_more_messages(app_name: str, port: int) -> None:
    """It is there, so a flow that sends to it reads why, not `not-found`."""
    line = [*dev.command(port), "--dynamic-config-value", "history.maximumSignalsPerExecution=2"]
    process = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(30):
            while not await dev.serves(port):
                await asyncio.sleep(0.05)
        address, app = f"127.0.0.1:{port}", build(app_name)
        async with TemporalRuntime(address).running(app), TemporalClient(address) as client:
            other = await client.start(app.target(flows.waits), id=f"{app_name}-o")
            handle = await client.start(
                app.target(flows.tells_one), other.id, 3, id=f"{app_name}-r"
            )
            told = await handle.result(timeout=60)
            missing = await client.start(
                app.target(flows.tells_one), "nobody", 1, id=f"{app_name}-s"
            )
            assert (await missing.result(timeout=60))[0][0] == "not-found"
    finally:
        process.terminate()
        await process.wait()
    assert told == [["failed", told[0][1]]]
    assert "signal limit was exceeded" in told[0][1]
    assert repr(other.id) in told[0][1]


async def test_a_list_describes_no_more_than_it_needs(
    client: TemporalClient, app_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the runs that were terminated, those that can be in the answer; several at once."""
    monkeypatch.setattr(clients, "_AT_ONCE", 2)
    looked: list[str] = []
    described = clients.Link._raw

    async def watched(link: clients.Link, workflow_id: str) -> Any:
        looked.append(workflow_id)
        return await described(link, workflow_id)

    monkeypatch.setattr(clients.Link, "_raw", watched)
    target = build(app_name).target(flows.waits)
    ids = [f"{app_name}-{number}" for number in range(6)]
    for id in ids:
        await (await client.start(target, id=id)).terminate()
    async with asyncio.timeout(10):
        while len(await client.list(app=app_name, status="terminated")) < 6:
            await asyncio.sleep(0.05)
    for status, most in ((None, 3), (Status.TERMINATED, 4)):
        looked.clear()
        found = [run.id for run in await client.list(app=app_name, status=status, limit=3)]
        assert found == ids[:2:-1]
        assert sorted(looked) == ids[6 - most :]
    looked.clear()
    assert await client.list(app=app_name, status="timed-out", limit=3) == []
    assert sorted(looked) == ids
