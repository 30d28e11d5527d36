"""The testing kit: replaced steps, messages at chosen times, crashes, traces."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition, Target
from iworkflow.core.errors import Failure, FlowError, Reason
from iworkflow.core.port import Status
from iworkflow.core.steps import heartbeat, last_heartbeat, step_attempt
from iworkflow.core.testing import FlowTest, RandomSchedule, Stuck


@dataclass
class Lead:
    name: str


async def compose(lead: Lead) -> str:
    return f"Dear {lead.name}"


def send(lead: Lead, letter: str) -> int:
    return len(letter)


async def outreach(ctx: Context, lead: Lead) -> dict[str, Any]:
    letter = await ctx.step(compose, lead)
    sent = await ctx.step(send, lead, letter)
    reply = await ctx.recv("reply", timeout=timedelta(days=1), result_type=str)
    await ctx.set_state("reply", reply)
    return {"letter": letter, "sent": sent, "reply": reply}


app = AppDefinition("outreach", flows=[outreach], activities=[compose, send])


async def test_a_flow_runs_with_its_real_steps() -> None:
    """Without replacements the app's own steps run."""
    async with FlowTest(app) as t:
        run = await t.start(outreach, Lead("ada"))
        assert await run.result() == {"letter": "Dear ada", "sent": 8, "reply": None}
        assert t.elapsed == timedelta(days=1)
        assert run.id == "outreach-1"


async def test_steps_are_replaced_by_name_or_by_function() -> None:
    """A replacement gets the real step's types, async or not, and runs on the event loop."""
    here = threading.get_ident()

    def fake(lead: Any) -> str:
        assert isinstance(lead, Lead)
        assert threading.get_ident() == here
        return f"fake {lead.name}"

    async def fake_send(lead: Any, letter: Any) -> int:
        return 7

    async with FlowTest(app, steps={"compose": fake, send: fake_send}) as t:
        run = await t.start(outreach, Lead("ada"))
        assert await run.result() == {"letter": "fake ada", "sent": 7, "reply": None}


async def test_a_replacement_for_no_step_is_refused() -> None:
    """The error names what was meant."""
    with pytest.raises(ValueError, match=r"no step 'compos'.*did you mean 'compose'"):
        FlowTest(app, steps={"compos": lambda lead: ""})


async def test_a_replacement_that_returns_another_type_fails_the_step() -> None:
    """What a replacement returns is checked against the real step's hint."""
    async with FlowTest(app, steps={"compose": lambda lead: b"bytes"}) as t:
        run = await t.start(outreach, Lead("ada"))
        with pytest.raises(FlowError) as caught:
            await run.result()
        assert caught.value.type == "EncodeError"


async def test_messages_come_at_chosen_times() -> None:
    """A message of the third hour is received in the third hour, one after the end is logged."""
    async with FlowTest(app) as t:
        run = await t.start(outreach, Lead("ada"))
        t.signal_at(timedelta(hours=3), run.id, "reply", "yes")
        assert (await run.result())["reply"] == "yes"
        assert t.elapsed == timedelta(hours=3)


async def test_a_message_for_nobody_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A message that comes after the flow's end does not fail the test by itself."""
    async with FlowTest(app) as t:
        run = await t.start(outreach, Lead("ada"))
        t.signal_at(timedelta(days=2), run.id, "reply", "late")
        await run.result()
        await t.advance(timedelta(days=2))
    assert "message 'reply' after 2 days" in caplog.text


async def test_time_passes_only_when_told() -> None:
    """`settle` moves nothing, `advance` moves by what it says and lets everything happen."""
    begin = datetime(2030, 1, 1, tzinfo=UTC)

    async def ticks(ctx: Context) -> None:
        for tick in range(3):
            await ctx.set_state("tick", tick)
            await ctx.sleep(10)

    clockwork = AppDefinition("ticks", flows=[ticks])
    async with FlowTest(clockwork, start=begin) as t:
        run = await t.start(ticks)
        assert await run.query("tick") is None
        await t.settle()
        assert (await run.query("tick"), t.now) == (0, begin)
        await t.advance(9.5)
        assert (await run.query("tick"), t.elapsed) == (0, timedelta(seconds=9.5))
        await t.advance(timedelta(seconds=0.5))
        assert await run.query("tick") == 1
        await run.result()
        assert t.now == begin + timedelta(seconds=30)


async def test_a_callback_comes_at_its_moment() -> None:
    """`at` takes an aware time too, and calls in between what the flow does."""
    seen: list[Any] = []
    async with FlowTest(app) as t:
        run = await t.start(outreach, Lead("ada"))
        t.at(t.now + timedelta(hours=1), lambda: seen.append(t.elapsed))
        await run.result()
    assert seen == [timedelta(hours=1)]


async def test_a_wait_without_end_says_what_it_waits_for() -> None:
    """`Stuck` names the topic; it comes at once, not after a timeout."""

    async def waits(ctx: Context) -> None:
        await asyncio.gather(ctx.recv("left"), ctx.recv("right"))

    async with FlowTest(AppDefinition("waits", flows=[waits])) as t:
        run = await t.start(waits)
        with pytest.raises(Stuck, match=r"'waits-1' .* waits in recv 'left', recv 'right'"):
            await run.result()
        for topic in ("left", "right"):
            await run.signal(topic, None)
        await run.result()


async def test_a_wait_for_an_app_that_is_down_says_so() -> None:
    """`Stuck` names the app; once its worker is up, the flow goes on."""

    async def kid(ctx: Context) -> int:
        return 5

    async def parent(ctx: Context) -> int:
        return await ctx.child(Target("kids", "kid"), id="kid", result_type=int)

    one, two = AppDefinition("parents", flows=[parent]), AppDefinition("kids", flows=[kid])
    async with FlowTest(one, two) as t:
        await t.down("kids")
        run = await t.start(parent)
        with pytest.raises(Stuck, match="await-run 'kid'"):
            await run.result()
        with pytest.raises(Stuck, match="no worker of app 'kids' that is up knows 'kid'"):
            await t.client.handle("kid").result()
        await t.up("kids")
        assert await run.result() == 5
        with pytest.raises(
            ValueError, match=r"no app 'kid' in this test \(apps: 'parents', 'kids'"
        ):
            await t.down("kid")


async def test_a_parked_run_says_why() -> None:
    """`Stuck` carries the line that the worker logs."""

    async def changes(ctx: Context) -> None:
        await ctx.step(send if crashed else compose, Lead("x"), *(["l"] if crashed else []))
        await ctx.recv("t")

    crashed = False
    changing = AppDefinition("changes", flows=[changes], activities=[compose, send])
    async with FlowTest(changing) as t:
        run = await t.start(changes)
        await t.settle()
        crashed = True
        await t.crash()
        with pytest.raises(Stuck, match="recorded step 'compose', the code asks for 'send'"):
            await run.result()


@pytest.mark.parametrize("count", [1, 2, 3, 4])
async def test_a_crash_after_any_record_runs_nothing_again(count: int) -> None:
    """Whichever record the workers die after, each step runs once and the outcome is the same."""
    async with FlowTest(app, crash_after=count) as t:
        run = await t.start(outreach, Lead("ada"))
        t.signal_at(60, run.id, "reply", "yes")
        assert (await run.result())["reply"] == "yes"
        trace = t.trace(run.id)
        assert trace.crashes == 1
        assert [step.step for step in trace.steps] == ["compose", "send"]
        assert t.interrupted == []


async def test_a_crash_between_effect_and_record_runs_the_step_again() -> None:
    """That step runs twice, `interrupted` names it, and there is one record."""
    async with FlowTest(app) as t:
        run = await t.start(outreach, Lead("ada"))
        await run.result()
        effect = next(p.number for p in t.points if (p.name, p.moment.value) == ("send", "effect"))
    async with FlowTest(app, crash_at=[effect]) as t:
        run = await t.start(outreach, Lead("ada"))
        await run.result()
        trace = t.trace(run.id)
        assert [step.step for step in trace.steps] == ["compose", "send", "send"]
        assert [step.name for step in trace.operations[:2]] == ["compose", "send"]
        assert [(one.step, one.place) for one in t.interrupted] == [("send", 2)]


async def test_a_crash_at_a_moment_keeps_sleeps() -> None:
    """A sleep that was begun ends when it would have, although the workers died in it."""

    async def nap(ctx: Context) -> None:
        await ctx.sleep(100)

    async with FlowTest(AppDefinition("nap", flows=[nap])) as t:
        run = await t.start(nap)
        t.crash_at(60)
        await run.result()
        assert t.elapsed == timedelta(seconds=100)
        assert t.trace(run.id).crashes == 1


async def test_attempts_and_heartbeats_survive_a_crash() -> None:
    """The attempt number, the rest of the wait and the last beat are kept."""
    seen: list[tuple[int, Any]] = []

    async def flaky() -> str:
        seen.append((step_attempt(), last_heartbeat()))
        if step_attempt() < 3:
            heartbeat(step_attempt() * 10)
            raise Failure("again")
        return "ok"

    async def tries(ctx: Context) -> str:
        return await ctx.step(flaky, attempts=3, retry_interval=100)

    async with FlowTest(AppDefinition("tries", flows=[tries], activities=[flaky])) as t:
        run = await t.start(tries)
        t.crash_at(50)
        t.crash_at(150)
        assert await run.result() == "ok"
        assert seen == [(1, None), (2, 10), (3, 20)]
        assert t.elapsed == timedelta(seconds=200)


async def test_a_crash_in_the_middle_of_a_step_runs_it_again() -> None:
    """The running attempt is cancelled and made again with the same number."""
    attempts: list[int] = []
    began = asyncio.Event()

    async def slow() -> str:
        attempts.append(step_attempt())
        began.set()
        if len(attempts) == 1:
            await asyncio.Event().wait()
        return "ok"

    async def flow(ctx: Context) -> str:
        return await ctx.step(slow)

    async with FlowTest(AppDefinition("slow", flows=[flow], activities=[slow])) as t:
        run = await t.start(flow)
        await began.wait()
        await t.crash()
        assert await run.result() == "ok"
        assert attempts == [1, 1]


async def test_a_trace_tells_everything_in_order() -> None:
    """Records, messages, executions with their arguments, crashes and the end."""
    async with FlowTest(app, crash_after=1) as t:
        run = await t.start(outreach, Lead("ada"))
        t.signal_at(60, run.id, "reply", "yes")
        await run.result()
        trace = t.trace(run.id)
    kinds = [type(event).__name__ for event in trace]
    assert kinds == [
        *("Executed", "Recorded", "Crashed", "Executed", "Recorded"),
        *("Delivered", "Recorded", "Recorded", "Ended"),
    ]
    assert trace.steps[0].args == (Lead("ada"),)
    assert [(op.kind, op.name, op.outcome.value) for op in trace.operations] == [
        ("step", "compose", "Dear ada"),
        ("step", "send", 8),
        ("recv", "reply", {"message": "yes"}),
        ("set-state", "reply", None),
    ]
    assert [message.value for message in trace.messages] == ["yes"]
    text = str(trace)
    assert "runs compose(Lead(name='ada'))" in text
    assert "60.00 s   3 recv 'reply' -> {'message': 'yes'}" in text


async def test_a_lost_result_of_a_timed_out_run_is_not_recorded() -> None:
    """`timeout` of the start is virtual time too."""
    async with FlowTest(app) as t:
        run = await t.start(outreach, Lead("ada"), timeout=timedelta(hours=1))
        with pytest.raises(FlowError) as caught:
            await run.result()
        assert caught.value.reason is Reason.TIMEOUT
        assert (await run.describe()).status is Status.TIMED_OUT
        assert len(t.trace(run.id).operations) == 2


async def branches(ctx: Context) -> list[str]:
    order: list[str] = []

    async def branch(name: str) -> None:
        await ctx.step(compose, Lead(name))
        order.append(name)
        await ctx.step(compose, Lead(name + name))

    await asyncio.gather(branch("a"), branch("b"), branch("c"))
    return order


racing = AppDefinition("racing", flows=[branches], activities=[compose])


async def test_a_schedule_chooses_who_completes_first() -> None:
    """Seeds give different orders; the same seed gives the same order and the same points."""
    orders: dict[int, Any] = {}
    for seed in [*range(20), *range(20)]:
        async with FlowTest(racing, schedule=RandomSchedule(seed, crash_rate=0.1)) as t:
            run = await t.start(branches)
            seen = await run.result(), [str(point) for point in t.points]
            assert orders.setdefault(seed, seen) == seen
    assert len({tuple(order) for order, _ in orders.values()}) > 1


async def test_what_was_chosen_before_a_crash_holds_after_it() -> None:
    """Under a random schedule with crashes no step is lost, and none is repeated uninterrupted."""
    crashes = 0
    for seed in range(40):
        async with FlowTest(racing, schedule=RandomSchedule(seed, crash_rate=0.1)) as t:
            run = await t.start(branches)
            assert sorted(await run.result()) == ["a", "b", "c"]
            trace = t.trace(run.id)
            crashes += trace.crashes
            ran = [step.place for step in trace.steps]
            repeats = len(ran) - len(set(ran))
            assert repeats <= len(t.interrupted)
            assert len(trace.operations) == 6
    assert crashes > 20


@pytest.mark.parametrize("seed", range(10))
async def test_a_test_may_end_while_operations_are_held(seed: int) -> None:
    """Leaving the block ends what the schedule holds, whatever it is."""

    async def many(ctx: Context) -> None:
        await asyncio.gather(*(ctx.set_state(f"k{n}", n) for n in range(3)), ctx.step(compose, ada))

    ada = Lead("ada")
    held = AppDefinition("held", flows=[many], activities=[compose])
    async with FlowTest(held, schedule=RandomSchedule(seed, hold_rate=1.0)) as t:
        await t.start(many)
        for _ in range(20):
            await asyncio.sleep(0)
        assert t.points
        await t.crash()
        await t.down("held")


async def test_a_broken_worker_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the engine is raised by `result`, and by the end of the block otherwise."""

    def fault(*_: Any) -> None:
        raise OSError("the store is full")

    async def test(*, waits: bool) -> None:
        async with FlowTest(app) as t:
            run = await t.start(outreach, Lead("ada"))
            await (run.result() if waits else t.settle())
            assert not waits, "the result was there all the same"

    monkeypatch.setattr("iworkflow.core.memory.store.MemoryStore.record", fault)
    for waits in (True, False):
        with pytest.raises(OSError, match="the store is full"):
            await test(waits=waits)


async def test_an_engine_that_forgets_the_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without order records some seed ends in a parked run: random orders and crashes find it."""

    async def forget(*_: Any) -> None:
        return None

    monkeypatch.setattr("iworkflow.core.memory.host.MemoryHost.record_order", forget)
    parked = 0
    for seed in range(60):
        async with FlowTest(racing, schedule=RandomSchedule(seed, crash_rate=0.1)) as t:
            run = await t.start(branches)
            try:
                await run.result()
            except Stuck as stuck:
                parked += "recorded" in str(stuck)
    assert parked > 0
