"""The driver, against an engine whose every completion the test decides."""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition
from iworkflow.core.errors import ErrorData, FlowError, Reason
from iworkflow.core.flow.driver import DeadlinePassed, drive
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import (
    Completion,
    Operation,
    Outcome,
    Receive,
    Record,
    RunInfo,
    RunStep,
    SetState,
    Sleep,
)

START = datetime(2030, 1, 1, tzinfo=UTC)


class Engine:
    """One run: what outlives a crash. Each dispatch is driven by hand."""

    def __init__(self, flow: Callable[..., Awaitable[Any]], *, patches: Sequence[str] = ()) -> None:
        self.flow = flow
        self.history: dict[int, Record] = {}
        self.clock = START.timestamp()
        self.deadline: float | None = None
        self.born = frozenset(patches)
        self.patches = list(patches)
        self.dispatches: list[Dispatch] = []

    @contextmanager
    def dispatch(self, flow: Callable[..., Awaitable[Any]] | None = None) -> Iterator[Dispatch]:
        """Dispatch the run; leaving the block is the crash, unless the flow has ended."""
        dispatch = Dispatch(self, flow or self.flow)
        self.dispatches.append(dispatch)
        try:
            yield dispatch
        finally:
            dispatch.dead = True
            dispatch.task.cancel()


class Dispatch:
    """A `Host` that performs nothing by itself: the test completes what was started."""

    orders = True
    replaying = False

    def __init__(self, engine: Engine, flow: Callable[..., Awaitable[Any]]) -> None:
        self.engine = engine
        self.history = dict(engine.history)
        self.info = RunInfo(
            workflow_id="run-1",
            run_id="run-1",
            app="test-app",
            flow="flow",
            args=[],
            started_at=START,
            deadline=engine.deadline,
            patches=engine.born,
        )
        self.started: dict[int, Operation] = {}
        self.orders_written: list[list[int]] = []
        self.parked_why: str | None = None
        self.dead = False
        self.full = False
        """What a look answers."""
        self._futures: dict[int, asyncio.Future[Completion]] = {}
        self._place = 0
        app = AppDefinition(
            "test-app",
            flows={"flow": flow},
            activities=dict.fromkeys("abcdefgh", _step),
            patches=engine.patches,
        )
        self.task = asyncio.ensure_future(drive(self, app))

    def now(self) -> float:
        return self.engine.clock

    def reserve(self) -> int:
        self._place += 1
        return self._place

    async def perform(self, place: int, operation: Operation) -> Completion:
        self.started[place] = operation
        self._futures[place] = asyncio.get_running_loop().create_future()
        if isinstance(operation, Sleep) and place not in self.engine.history:
            self._record(place, Completion(Outcome(), self.now() + operation.seconds))
        return await self._futures[place]

    async def look(self, place: int, operation: Receive) -> bool:
        return self.full

    async def record_order(self, place: int, order: Sequence[int]) -> None:
        await asyncio.sleep(0)
        assert not self.dead
        self.orders_written.append(list(order))
        self.engine.history[place] = Record(
            "order", "", "", Completion(Outcome(), self.now()), tuple(order)
        )

    def parked(self, why: str) -> None:
        self.parked_why = why

    def _record(self, place: int, completion: Completion) -> None:
        assert not self.dead
        operation = self.started[place]
        self.engine.history[place] = Record(
            operation.kind, operation.name, operation.digest, completion
        )

    async def settle(self) -> Dispatch:
        """Let everything happen that can without a completion."""
        for _ in range(30):
            await asyncio.sleep(0)
        return self

    async def complete(self, place: int, value: JsonValue = None, **error: Any) -> None:
        """Complete one operation, a second later, and let the flow go on."""
        self.engine.clock += 1
        self.finish(place, value, **error)
        await self.settle()

    def finish(self, place: int, value: JsonValue = None, **error: Any) -> None:
        """Complete one operation without letting the flow go on."""
        outcome = Outcome(error=ErrorData(**error)) if error else Outcome(value)
        completion = Completion(outcome, self.engine.clock)
        if isinstance(self.started[place], Sleep):
            completion = self.engine.history[place].completion
            self.engine.clock = max(self.engine.clock, completion.at)
        else:
            self._record(place, completion)
        self._futures[place].set_result(completion)

    def fail(self, place: int, error: BaseException) -> None:
        """Break the engine at an operation."""
        self._futures[place].set_exception(error)

    @property
    def names(self) -> dict[int, str]:
        """What was started, by place: a step's name, else the kind."""
        return {p: o.name if isinstance(o, RunStep) else o.kind for p, o in self.started.items()}

    async def outcome(self) -> Outcome:
        """The run's outcome; the flow must have ended."""
        await self.settle()
        assert self.task.done(), f"the flow waits for {self.started}"
        return self.task.result()


async def _step(x: int = 0) -> Any:
    raise AssertionError("the test engine runs no steps")


async def test_a_sequence_records_no_order() -> None:
    """A run that never has two operations in the air pays nothing."""

    async def flow(ctx: Context) -> list[Any]:
        return [await ctx.step("a", 1), await ctx.step("b", 2), await ctx.step("c", 3)]

    with Engine(flow).dispatch() as d:
        for place, value in enumerate("xyz", start=1):
            await d.settle()
            await d.complete(place, value)
        assert (await d.outcome()).value == ["x", "y", "z"]
        assert d.orders_written == []


async def _chains(ctx: Context) -> list[list[str]]:
    async def chain() -> list[str]:
        return [await ctx.step("a", 1), await ctx.step("a", 1)]

    return list(await asyncio.gather(chain(), chain(), chain()))


async def test_chains_of_the_same_step_keep_their_results() -> None:
    """What overtook before the crash overtakes after it: no result changes hands."""
    engine = Engine(_chains)
    with engine.dispatch() as d:
        await d.settle()
        await d.complete(3, "third")
        await d.complete(1, "first")
        assert d.orders_written == [[3], [1]]
    with engine.dispatch() as d:
        await d.settle()
        assert d.names == {2: "a", 5: "a", 7: "a"}
        await d.complete(7, "first, again")
        await d.complete(5, "third, again")
        await d.complete(2, "second")
        await d.complete(9, "second, again")
        assert (await d.outcome()).value == [
            ["first", "first, again"],
            ["second", "second, again"],
            ["third", "third, again"],
        ]


async def test_what_completed_at_once_comes_in_the_order_of_the_engine() -> None:
    """An engine tells of some completions later than of others; who looks in between sees them."""
    told: list[str] = []

    async def flow(ctx: Context) -> None:
        async def one(step: str) -> None:
            await ctx.step(step)
            told.append(step)

        await asyncio.gather(one("a"), one("b"), one("c"))

    with Engine(flow).dispatch() as d:
        await d.settle()
        for place in (3, 1, 2):
            d.finish(place)
        await d.settle()
        assert told == ["c", "a", "b"]


async def test_the_order_is_durable_before_what_follows_from_it_starts() -> None:
    """While the order is being written, nothing that depended on it was started."""
    engine = Engine(_chains)
    with engine.dispatch() as d:
        await d.settle()
        written = asyncio.Event()
        record, seen = d.record_order, list[list[int]]()

        async def slow(place: int, order: Sequence[int]) -> None:
            seen.append(list(d.started))
            await written.wait()
            await record(place, order)

        d.record_order = slow  # type: ignore[method-assign]
        await d.complete(2, "x")
        assert seen == [[1, 2, 3]]
        assert list(d.started) == [1, 2, 3]
        written.set()
        await d.settle()
        assert list(d.started) == [1, 2, 3, 5]


async def test_a_crash_before_the_order_leaves_the_choice_open() -> None:
    """Unrecorded, the choice may fall the other way; nothing durable depended on it."""
    engine = Engine(_chains)
    with engine.dispatch() as d:
        await d.settle()
        d.finish(2, "second")
    engine.clock += 1
    with engine.dispatch() as d:
        await d.settle()
        assert d.orders_written == [[2]]
        assert d.names == {1: "a", 3: "a", 5: "a"}


async def test_completions_of_one_moment_share_an_order_record() -> None:
    """All that are ready are delivered first; then one record, then all that was issued."""
    with Engine(_chains).dispatch() as d:
        await d.settle()
        for place in (3, 1, 2):
            d.engine.clock += 1
            d.finish(place, str(place))
        await d.settle()
        assert d.orders_written == [[3, 1, 2]]
        assert d.names == {1: "a", 2: "a", 3: "a", 5: "a", 6: "a", 7: "a"}


async def test_a_lost_set_state_is_never_set_later() -> None:
    """A state that lost a race comes before the one that is set next, also across a crash."""

    async def flow(ctx: Context) -> str:
        old = asyncio.ensure_future(ctx.set_state("k", "OLD"))
        await ctx.step("a")
        old.cancel()
        await ctx.set_state("k", "NEW")
        return str(await ctx.step("b"))

    engine = Engine(flow)
    with engine.dispatch() as d:
        await d.settle()
        assert d.names == {1: "a", 2: "set-state"}
        await d.complete(1, "x")
        assert len(d.started) == 2, "NEW waits for OLD, which may be half done"
        await d.complete(2)
        await d.complete(4)
        assert d.names[5] == "b"
    with engine.dispatch() as d:
        await d.settle()
        assert d.names == {5: "b"}


async def test_a_state_that_was_not_begun_is_not_set() -> None:
    """A state lost before it was started, and another recorded: a replay sets neither."""

    async def flow(ctx: Context) -> str:
        first = asyncio.ensure_future(ctx.set_state("k", "FIRST"))
        old = asyncio.ensure_future(ctx.set_state("k", "OLD"))
        await ctx.step("a")
        old.cancel()
        await first
        await ctx.set_state("k", "NEW")
        return "done"

    engine = Engine(flow)
    with engine.dispatch() as d:
        await d.settle()
        assert d.names == {1: "a", 2: "set-state"}
        await d.complete(1, "x")
        await d.complete(2)
        states = [o.value for o in d.started.values() if isinstance(o, SetState)]
        assert states == ["FIRST", "NEW"]


async def test_states_are_set_one_after_another() -> None:
    """Two `set_state` in the air are performed in the order of the flow."""

    async def flow(ctx: Context) -> None:
        await asyncio.gather(ctx.set_state("k", 1), ctx.set_state("k", 2))

    with Engine(flow).dispatch() as d:
        await d.settle()
        assert list(d.started) == [1]
        await d.complete(1)
        assert list(d.started) == [1, 2]
        await d.complete(2)
        assert (await d.outcome()).error is None


async def test_a_half_done_effect_is_finished_when_it_is_dropped() -> None:
    """A cancelled `set_state` that was started is awaited before the run ends."""

    async def flow(ctx: Context) -> str:
        state = asyncio.ensure_future(ctx.set_state("k", 1))
        await ctx.step("a")
        state.cancel()
        return "done"

    with Engine(flow).dispatch() as d:
        await d.settle()
        (state,) = (p for p, name in d.names.items() if name == "set-state")
        await d.complete(3 - state, "x")
        assert not d.task.done()
        d.finish(state)
        assert (await d.outcome()).value == "done"


async def test_a_step_that_lost_is_cancelled_below() -> None:
    """A timeout around a step ends the step on the engine, and a replay does not start it."""

    async def flow(ctx: Context) -> str:
        try:
            async with asyncio.timeout(5):
                await ctx.step("a")
        except TimeoutError:
            return str(await ctx.step("b"))
        return "in time"

    engine = Engine(flow)
    with engine.dispatch() as d:
        await d.settle()
        (timer,) = (p for p, name in d.names.items() if name == "sleep")
        await d.complete(timer)
        assert d._futures[3 - timer].cancelled()
        assert d.orders_written == [[timer]]
    with engine.dispatch() as d:
        await d.settle()
        assert list(d.names.values()) == ["b"]
        await d.complete(4, "late")
        assert (await d.outcome()).value == "late"


async def test_a_sleep_keeps_its_end_across_a_crash() -> None:
    """A sleep in the history is performed for the rest; one that is over is not."""

    async def flow(ctx: Context) -> float:
        await ctx.sleep(100)
        await asyncio.sleep(50)
        return asyncio.get_running_loop().time()

    engine = Engine(flow)
    with engine.dispatch() as d:
        await d.settle()
    with engine.dispatch() as d:
        await d.settle()
        assert d.names == {1: "sleep"}
    engine.clock += 1000
    with engine.dispatch() as d:
        await d.settle()
        assert d.names == {2: "sleep"}
        await d.complete(2)
        assert (await d.outcome()).value == START.timestamp() + 1050


async def test_loop_time_moves_with_the_completions() -> None:
    """Deadlines computed from `loop.time()` hold, and replay to the same."""

    async def flow(ctx: Context) -> list[float]:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await ctx.step("a")
        middle = loop.time()
        async with asyncio.timeout_at(begin + 10):
            await ctx.step("b")
        return [middle - begin, loop.time() - begin]

    engine = Engine(flow)
    with engine.dispatch() as d:
        await d.settle()
        await d.complete(1)
        sleep = next(o for o in d.started.values() if isinstance(o, Sleep))
        assert sleep.seconds == 9
        (b,) = (p for p, name in d.names.items() if name == "b")
        await d.complete(b)
        assert (await d.outcome()).value == [1, 2]
    engine.clock += 500
    with engine.dispatch() as d:
        assert (await d.outcome()).value == [1, 2]
        assert d.started == {}


async def test_a_recv_that_lost_leaves_its_message_to_the_next() -> None:
    """The reader goes on; its message waits for the next `recv`, and one reader is enough."""

    async def flow(ctx: Context) -> list[Any]:
        first = await ctx.recv("t", timeout=5)
        racing = asyncio.ensure_future(ctx.recv("t"))
        await ctx.step("a")
        racing.cancel()
        await ctx.step("b")
        return [first, await ctx.recv("t")]

    engine = Engine(flow)
    with engine.dispatch() as d:
        await d.settle()
        assert d.names == {1: "recv"}, "alone in the air: one operation, with its timeout"
        await d.complete(1, None)
        (reader,) = (p for p, name in d.names.items() if name == "recv" and p > 1)
        (a,) = (p for p, name in d.names.items() if name == "a")
        await d.complete(a)
        await d.complete(reader, {"message": "m"})
        (b,) = (p for p, name in d.names.items() if name == "b")
        await d.complete(b)
        assert (await d.outcome()).value == [None, "m"]
        assert sum(name == "recv" for name in d.names.values()) == 2
    with engine.dispatch() as d:
        assert (await d.outcome()).value == [None, "m"]
        assert d.started == {}


async def test_two_recvs_of_a_topic_get_a_message_each() -> None:
    """One reader at a time serves them in the order in which they wait."""

    async def flow(ctx: Context) -> list[Any]:
        return list(await asyncio.gather(ctx.recv("t"), ctx.recv("t")))

    with Engine(flow).dispatch() as d:
        await d.settle()
        assert d.names == {1: "recv"}
        await d.complete(1, {"message": "x"})
        (second,) = (p for p in d.names if p > 1)
        await d.complete(second, {"message": "y"})
        assert (await d.outcome()).value == ["x", "y"]


@pytest.mark.parametrize("company", [False, True])
async def test_a_message_that_cannot_be_read_is_an_error(company: bool) -> None:
    """What the engine cannot read raises where it is received, and is no timeout."""

    async def flow(ctx: Context) -> Any:
        step = asyncio.ensure_future(ctx.step("a")) if company else None
        await asyncio.sleep(0)
        with pytest.raises(FlowError, match="pickled"):
            await ctx.recv("t", timeout=60)
        return step is not None and await step

    with Engine(flow).dispatch() as d:
        await d.settle()
        places = {name: p for p, name in d.names.items()}
        await d.complete(places["recv"], message="pickled", reason=Reason.FAILED)
        if company:
            await d.complete(places["a"], True)
        assert (await d.outcome()).value is company


async def looks(ctx: Context) -> list[Any]:
    """Wait for a message beside a step, for hardly any time, and for another."""
    step = asyncio.ensure_future(ctx.step("a"))
    first = await ctx.recv("t", timeout=0, default="none")
    second = await ctx.recv("t", timeout=100, default="none")
    return [first, second, await step]


async def test_a_timeout_waits_for_a_look() -> None:
    """A message that was there is not missed: the time is up, and the reader is still looking."""
    with Engine(looks).dispatch() as d:
        step, timer, reader = await kinds(d, "step", "sleep", "recv")
        d.full = True
        await d.complete(timer)
        assert len(d.started) == 3, "the flow goes on only once the reader has looked"
        d.engine.clock -= 2
        await d.complete(reader, {"message": "there"})
        *_, other = d.names
        await d.complete(other, {"message": "next"})
        await d.complete(step, "done")
        assert (await d.task).value == ["there", "next", "done"]


async def kinds(d: Dispatch, *kinds: str) -> list[int]:
    """Let the flow start, and return the first place of each kind of operation."""
    await d.settle()
    return [next(p for p, o in d.started.items() if o.kind == kind) for kind in kinds]


async def test_a_look_that_finds_what_came_late_ends_the_wait() -> None:
    """What the look finds was sent after the time was up: it is left to the next `recv`."""
    with Engine(looks).dispatch() as d:
        step, timer, reader = await kinds(d, "step", "sleep", "recv")
        d.full = True
        await d.complete(timer)
        await d.complete(reader, {"message": "late"})
        await d.complete(step, "done")
        assert (await d.task).value == ["none", "late", "done"]


async def test_a_timeout_that_passed_while_nothing_ran_waits_for_a_look() -> None:
    """After a crash, too, a message that was sent in time comes before the timeout."""
    engine = Engine(looks)
    with engine.dispatch() as d:
        await d.settle()
    engine.clock += 50
    for at, first in [(engine.clock - 60, "mail"), (engine.clock, "none")]:
        again = Engine(looks)
        again.history, again.clock = dict(engine.history), engine.clock
        with again.dispatch() as d:
            step, timer, reader = await kinds(d, "step", "sleep", "recv")
            d.full = True
            d.finish(timer)
            await d.settle()
            again.clock = at
            d.finish(reader, {"message": "mail"})
            again.clock = engine.clock
            await d.settle()
            if first == "mail":
                await d.complete(max(d.started), {"message": "next"})
            await d.complete(step, "done")
            second = "next" if first == "mail" else "mail"
            assert (await d.task).value == [first, second, "done"]


async def test_a_recv_in_company_times_out_by_a_sleep() -> None:
    """Its timeout returns the default, and the reader stays for the next."""

    async def flow(ctx: Context) -> Any:
        return await asyncio.gather(ctx.step("a"), ctx.recv("t", timeout=5, default="none"))

    with Engine(flow).dispatch() as d:
        await d.settle()
        places = {name: p for p, name in d.names.items()}
        await d.complete(places["sleep"])
        await d.complete(places["a"], 1)
        assert (await d.outcome()).value == [1, "none"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ("renamed", "operation 2: recorded step 'b', the code asks for 'c'"),
        ("inserted", "operation 2: recorded step 'b', the code asks for 'c'"),
        ("removed", "operation 2: recorded step 'b', the code ends before it"),
        ("other arguments", "operation 2: recorded step 'b' with other arguments"),
        ("other kind", "operation 2: recorded step 'b', the code asks for sleep"),
        ("waits elsewhere", "operation 1: recorded step 'a', the code asks for recv 't'"),
    ],
)
async def test_code_that_does_not_fit_parks_the_run(
    changed: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The run is parked with a line that says where; under the old code it goes on."""

    async def old(ctx: Context) -> Any:
        await ctx.step("a", 1)
        return [await ctx.step("b", 2), await ctx.step("d", 3)]

    async def new(ctx: Context) -> Any:
        if changed == "waits elsewhere":
            return await ctx.recv("t")
        await ctx.step("a", 1)
        if changed == "renamed":
            return [await ctx.step("c", 2), await ctx.step("d", 3)]
        if changed == "inserted":
            await ctx.step("c", 2)
        if changed == "other arguments":
            await ctx.step("b", 20)
        if changed == "other kind":
            await ctx.sleep(1)
        return await ctx.step("b", 2) if changed == "inserted" else None

    engine = Engine(old)
    with engine.dispatch() as d:
        await d.settle()
        await d.complete(1, "x")
        await d.complete(2, "y")
    with engine.dispatch(new) as d:
        await d.settle()
        assert not d.task.done()
        assert d.started == {}
        assert d.parked_why is not None
        assert d.parked_why.startswith(f"flow 'run-1' parked at {says}")
        assert "restore the order or guard the change with ctx.patched(...)" in d.parked_why
        assert d.parked_why in caplog.text
    with engine.dispatch() as d:
        await d.settle()
        await d.complete(3, "z")
        assert (await d.outcome()).value == ["y", "z"]


async def test_a_parked_run_runs_no_clean_up_in_the_engine() -> None:
    """What a parked flow's `finally` issues is refused: nothing is started."""

    async def old(ctx: Context) -> Any:
        await ctx.step("a")

    async def new(ctx: Context) -> Any:
        try:
            await ctx.step("b")
        finally:
            await ctx.step("c")

    engine = Engine(old)
    with engine.dispatch() as d:
        await d.settle()
        await d.complete(1)
    with engine.dispatch(new) as d:
        await d.settle()
        assert d.parked_why is not None
        assert d.started == {}


async def test_leftovers_touch_no_other_run() -> None:
    """A stopped run's `finally` and generators issue nothing, here or in another run."""

    async def numbers(ctx: Context) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await ctx.step("b")

    async def flow(ctx: Context) -> Any:
        try:
            async for _ in numbers(ctx):
                await ctx.step("a")
        finally:
            await ctx.step("c")

    first, second = Engine(flow), Engine(_chains)
    with first.dispatch() as d, second.dispatch() as other:
        await d.settle()
        d.task.cancel()
        await other.settle()
        assert d.names == {1: "a"}
        assert other.names == {1: "a", 2: "a", 3: "a"}


async def test_a_cancel_of_the_host_is_raised_again() -> None:
    """The engine's cancel is never a result, though the flow catches everything."""

    async def flow(ctx: Context) -> str:
        try:
            await ctx.step("a")
        except BaseException:
            return "swallowed"
        return "done"

    with Engine(flow).dispatch() as d:
        await d.settle()
        d.task.cancel()
        await d.settle()
        assert d.task.cancelled()


async def test_engine_trouble_never_reaches_the_flow() -> None:
    """What the engine raises ends the dispatch; the flow cannot catch it and record a result."""

    async def flow(ctx: Context) -> str:
        try:
            await asyncio.gather(ctx.step("a"), ctx.step("b"))
        except BaseException:
            return "swallowed"
        return "done"

    with Engine(flow).dispatch() as d:
        await d.settle()
        d.fail(1, ConnectionError("lost"))
        await d.settle()
        assert isinstance(d.task.exception(), ConnectionError)
        assert d._futures[2].cancelled()


async def test_nothing_is_delivered_past_the_deadline() -> None:
    """A completion that comes too late raises `DeadlinePassed`; the flow does not go on."""
    seen: list[str] = []

    async def flow(ctx: Context) -> str:
        while True:
            try:
                await ctx.step("a")
                seen.append("went on")
            except BaseException:
                seen.append("caught")

    engine = Engine(flow)
    engine.deadline = START.timestamp() + 10
    with engine.dispatch() as d:
        await d.settle()
        await d.complete(1)
        engine.clock += 20
        await d.complete(2)
        assert isinstance(d.task.exception(), DeadlinePassed)
        assert "caught" in seen, "closed by GeneratorExit"
        assert seen.count("went on") == 1


async def test_a_result_past_the_deadline_is_no_outcome() -> None:
    """A flow that returns too late does not complete."""

    async def flow(ctx: Context) -> str:
        return "too late"

    engine = Engine(flow)
    engine.deadline = START.timestamp() - 1
    with engine.dispatch() as d:
        await d.settle()
        assert isinstance(d.task.exception(), DeadlinePassed)


async def test_a_flow_that_waits_for_nothing_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing in the air and nothing ready: an error names where it waits; the run stays."""

    async def flow(ctx: Context) -> None:
        await ctx.step("a")
        await asyncio.Event().wait()

    with Engine(flow).dispatch() as d:
        await d.settle()
        await d.complete(1)
        assert not d.task.done()
        assert "flow 'run-1' can never go on: it awaits flow at " in caplog.text
        assert "test_flow_driver.py:" in caplog.text


async def test_a_flow_that_ends_cancels_what_is_in_the_air() -> None:
    """Fire and forget ends with its flow."""

    async def flow(ctx: Context) -> str:
        task = asyncio.ensure_future(ctx.step("a"))
        await ctx.step("b")
        return f"{task.done()}"

    with Engine(flow).dispatch() as d:
        await d.settle()
        (b,) = (p for p, name in d.names.items() if name == "b")
        await d.complete(b)
        assert (await d.outcome()).value == "False"
        assert d._futures[3 - b].cancelled()


async def test_errors_are_raised_where_the_operation_is_awaited() -> None:
    """A step's error is a `FlowError` that the flow may catch; uncaught, it fails the run."""

    async def flow(ctx: Context) -> Any:
        with pytest.raises(FlowError) as caught:
            await ctx.step("a")
        assert caught.value.reason is Reason.TIMEOUT
        return await ctx.step("b")

    with Engine(flow).dispatch() as d:
        await d.settle()
        await d.complete(1, message="slow", reason=Reason.TIMEOUT)
        await d.complete(2, message="bad", reason=Reason.FAILED, type="Bad", details=[1])
        error = (await d.outcome()).error
        assert error is not None
        assert (error.reason, error.type, error.details) == (Reason.FAILED, "Bad", [1])


async def test_log_lines_are_written_once(caplog: pytest.LogCaptureFixture) -> None:
    """`ctx.log` is silent while what an earlier dispatch did is replayed."""
    caplog.set_level(logging.INFO)

    async def flow(ctx: Context) -> None:
        ctx.log.info("before")
        await ctx.step("a")
        ctx.log.info("between")
        await ctx.step("b")
        ctx.log.info("after")

    engine = Engine(flow)
    with engine.dispatch() as d:
        await d.settle()
        await d.complete(1)
    with engine.dispatch() as d:
        await d.settle()
        await d.complete(2)
        await d.outcome()
    assert [r.message for r in caplog.records] == ["before", "between", "after"]
    assert {(r.workflow_id, r.flow, r.app) for r in caplog.records} == {  # type: ignore[attr-defined]
        ("run-1", "flow", "test-app")
    }


async def test_patches_answer_from_the_birth() -> None:
    """`patched` is what the run was born with, from any branch, and draws no operation."""

    async def flow(ctx: Context) -> list[bool]:
        asked = [ctx.patched("new"), ctx.patched("old"), ctx.patched("new")]
        return list(await asyncio.gather(*asked))

    engine = Engine(flow, patches=["old"])
    engine.patches = ["old", "new"]
    with engine.dispatch() as d:
        assert (await d.outcome()).value == [False, True, False]
        assert d.started == {}


async def test_an_undeclared_patch_is_an_error() -> None:
    """`patched` of an id that the app does not declare names those it does."""

    async def flow(ctx: Context) -> None:
        with pytest.raises(ValueError, match=r"declares no patch 'nwe' \(patches: 'new'\)"):
            await ctx.patched("nwe")

    with Engine(flow, patches=["new"]).dispatch() as d:
        assert (await d.outcome()).error is None


async def test_a_deprecated_patch_parks_older_runs() -> None:
    """A run born with the patch notices nothing; one born before it is parked, loudly."""

    async def flow(ctx: Context) -> str:
        await ctx.deprecate_patch("new")
        return "new code"

    with Engine(flow, patches=["new"]).dispatch() as d:
        assert (await d.outcome()).value == "new code"
    older = Engine(flow, patches=["new"])
    older.born = frozenset()
    with older.dispatch() as d:
        await d.settle()
        assert d.parked_why is not None
        assert "patch 'new' is deprecated" in d.parked_why


async def test_a_context_works_in_its_own_flow_only() -> None:
    """Used outside of its flow, it raises and says so."""
    leaked: list[Context] = []

    async def flow(ctx: Context) -> None:
        leaked.append(ctx)
        await ctx.step("a")

    with Engine(flow).dispatch() as d:
        await d.settle()
        with pytest.raises(RuntimeError, match="works inside that flow alone"):
            await leaked[0].step("b")


async def test_chance_is_replayed() -> None:
    """`random`, `uuid4` and `now` give a replay what they gave before."""

    async def flow(ctx: Context) -> list[Any]:
        first = [ctx.random.random(), str(ctx.uuid4()), (await ctx.now()).isoformat()]
        return [*first, await ctx.step("a")]

    engine = Engine(flow)
    with engine.dispatch() as d:
        await d.settle()
        await d.complete(1)
        await d.complete(2)
        live = (await d.outcome()).value
    engine.clock += 1000
    with engine.dispatch() as d:
        assert (await d.outcome()).value == live
    assert isinstance(live, list)
    assert uuid.UUID(str(live[1])).version == 4
    assert live[2] == "2030-01-01T00:00:01+00:00"


async def test_random_orders_replay() -> None:
    """Whatever order the completions took, a replay of the whole history gives the outcome."""

    async def flow(ctx: Context) -> list[Any]:
        seen: list[Any] = []

        async def worker(n: int, queue: asyncio.Queue[Any]) -> None:
            for k in range(3):
                await queue.put((n, k, await ctx.step("a", n)))

        queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=2)
        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(worker(n, queue))
            for _ in range(9):
                seen.append(await queue.get())
                seen.append(await ctx.step("b", len(seen)))
        return seen

    for seed in range(20):
        rng, engine = random.Random(seed), Engine(flow)
        with engine.dispatch() as d:
            await d.settle()
            while not d.task.done():
                open_ = [p for p, f in d._futures.items() if not f.done()]
                for place in rng.sample(open_, rng.randint(1, len(open_))):
                    d.engine.clock += 1
                    d.finish(place, f"r{place}")
                await d.settle()
            live = d.task.result().value
        with engine.dispatch() as d:
            assert (await d.outcome()).value == live
            assert d.started == {}
