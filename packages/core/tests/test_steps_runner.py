"""All attempts of a step: retries, slots, heartbeats, books, logs, the worker's stop."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from iworkflow.core.definition import AppDefinition
from iworkflow.core.errors import ErrorData, Failure, Reason, non_retryable
from iworkflow.core.options import StepPolicy
from iworkflow.core.port import Outcome, RunInfo, RunStep
from iworkflow.core.steps import (
    AttemptState,
    Clock,
    StepRunner,
    WallClock,
    heartbeat,
    last_heartbeat,
    step_attempt,
    step_info,
    step_signal,
)

RUN = RunInfo("lead-7", "run-1", "steps-test", "outreach", (), datetime.now(UTC))
POLICY = StepPolicy(retry_interval=0.01)


@dataclass
class Book:
    """A book in memory. `saved` holds everything that was written, with its time."""

    state: AttemptState | None = None
    saved: list[AttemptState] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    broken: int = 0
    written: asyncio.Event = field(default_factory=asyncio.Event)

    async def load(self) -> AttemptState | None:
        return self.state

    async def save(self, state: AttemptState) -> None:
        await asyncio.sleep(0)
        if self.broken:
            self.broken -= 1
            raise ConnectionError("no database")
        self.state = AttemptState.from_json(state.to_json())
        self.saved.append(self.state)
        self.times.append(time.monotonic())
        self.written.set()


class JumpingClock:
    """A clock that jumps over every sleep, and keeps them."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.sleeps: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.sleeps.append(round(seconds, 6))
        self.time += seconds


Make = Callable[..., StepRunner]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    made: list[StepRunner] = []

    def build(
        *steps: Callable[..., Any],
        clock: Clock | None = None,
        max_payload: int = 10**6,
        **more: Any,
    ) -> StepRunner:
        app = AppDefinition("steps-test", flows=(), activities=steps, **more)
        runner = StepRunner(app, clock=clock or WallClock(), max_payload=max_payload)
        made.append(runner)
        return runner

    yield build
    for runner in made:
        runner.close()
        assert runner.running == 0


def call(fn: Callable[..., Any], *args: Any, policy: StepPolicy = POLICY) -> RunStep:
    return RunStep(fn.__name__, args, policy, "digest")


async def run(runner: StepRunner, operation: RunStep, book: Book | None = None) -> Outcome:
    return await asyncio.wait_for(runner.run(operation, RUN, book or Book()), 20)


async def error_of(runner: StepRunner, operation: RunStep, book: Book | None = None) -> ErrorData:
    outcome = await run(runner, operation, book)
    assert outcome.error is not None
    return outcome.error


async def until(condition: Callable[[], Any], within: float = 5) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.005)


async def fails(times: int) -> int:
    if step_attempt() <= times:
        raise ValueError(f"attempt {step_attempt()}")
    return step_attempt()


async def test_a_step_that_succeeds_writes_nothing(make: Make) -> None:
    """A step that succeeds at once gives its value and leaves its book empty."""
    book = Book()
    assert await run(make(fails), call(fails, 0), book) == Outcome(1)
    assert book.saved == []


async def test_retries(make: Make) -> None:
    """Attempts are numbered from 1; each failure is in the book with the next time."""
    clock, book = JumpingClock(), Book()
    policy = StepPolicy(attempts=4, retry_interval=1, backoff=3)
    assert await run(make(fails, clock=clock), call(fails, 2, policy=policy), book) == Outcome(3)
    assert clock.sleeps == [1, 3]
    assert [state.made for state in book.saved] == [1, 2]
    assert [state.next_at for state in book.saved] == [1001, 1004]
    assert {state.first_at for state in book.saved} == {1000}
    assert book.saved[1].error == ErrorData("attempt 2", Reason.FAILED, "ValueError")


async def test_exhausted(make: Make) -> None:
    """The last failure is the step's, exhausted; nothing is written for it."""
    book = Book()
    policy = replace(POLICY, attempts=2)
    error = await error_of(make(fails), call(fails, 9, policy=policy), book)
    assert error == ErrorData("attempt 2", Reason.FAILED, "ValueError", exhausted=True)
    assert len(book.saved) == 1


async def test_goes_on_where_the_book_is(make: Make) -> None:
    """After a crash: the count, the rest of the wait and the heartbeat go on."""
    clock = JumpingClock()
    book = Book(AttemptState(5, 900, next_at=1007, heartbeat={"page": 3}))

    async def step() -> list[Any]:
        return [step_attempt(), last_heartbeat()]

    assert await run(make(step, clock=clock), call(step), book) == Outcome([6, {"page": 3}])
    assert clock.sleeps == [7]


async def test_total_timeout_after_a_crash(make: Make) -> None:
    """`total_timeout` counts from the first request, also over a crash; nothing runs after it."""
    ran: list[int] = []

    async def step() -> None:
        ran.append(1)

    last = ErrorData("no", Reason.FAILED, "Oops", [1])
    book = Book(AttemptState(1, 900, next_at=950, error=last))
    policy = StepPolicy(total_timeout=60)
    error = await error_of(make(step, clock=JumpingClock()), call(step, policy=policy), book)
    assert (error.reason, error.type, error.details) == (Reason.TIMEOUT, "Oops", [1])
    assert not error.exhausted
    assert ran == []


async def test_total_timeout_ends_retries(make: Make) -> None:
    """If the next wait passes it, the step fails now and does not wait."""
    clock = JumpingClock()
    policy = StepPolicy(attempts=None, retry_interval=4, total_timeout=10)
    error = await error_of(make(fails, clock=clock), call(fails, 99, policy=policy))
    assert clock.sleeps == [4, 4]
    assert (error.reason, error.type, error.exhausted) == (Reason.TIMEOUT, "ValueError", False)


async def test_waiting_for_a_pool_counts_in_total_timeout(make: Make) -> None:
    """A step that gets no slot in time fails with `timeout`, never run, and takes no slot."""
    go = asyncio.Event()

    async def hold() -> None:
        await go.wait()

    runner = make(hold, fails, pools={"paced": 1})
    policy = replace(POLICY, pool="paced")
    holder = asyncio.ensure_future(run(runner, call(hold, policy=policy)))
    await until(lambda: runner.running)
    waiting = call(fails, 0, policy=replace(policy, total_timeout=0.1))
    error = await error_of(runner, waiting)
    assert (error.reason, error.type) == (Reason.TIMEOUT, None)
    assert error.message == "total_timeout of 0.1 s leaves no time after 0 attempts"
    in_time = asyncio.ensure_future(
        run(runner, call(fails, 0, policy=replace(policy, total_timeout=10)))
    )
    cancelled = asyncio.ensure_future(
        run(runner, call(fails, 0, policy=replace(policy, total_timeout=10)))
    )
    await asyncio.sleep(0)
    cancelled.cancel()
    go.set()
    await holder
    assert await in_time == Outcome(1)
    await until(lambda: not runner.running)


@pytest.mark.parametrize("turns", range(8))
async def test_a_cancel_around_the_turn(make: Make, turns: int) -> None:
    """A cancel at any moment around the grant of a slot, with a time limit, leaks none."""

    async def step() -> None:
        await asyncio.sleep(60)

    runner = make(step, max_concurrent_steps=1)
    slot = await runner.slots.acquire(None, 3)
    policy = replace(POLICY, total_timeout=60)
    task = asyncio.ensure_future(run(runner, call(step, policy=policy)))
    for _ in range(5):
        await asyncio.sleep(0)
    slot.release()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: not runner.running)


async def test_a_clock_that_breaks(make: Make) -> None:
    """A clock that breaks is the engine's trouble: it is raised, and no time is up."""

    class Broken(WallClock):
        async def sleep(self, seconds: float) -> None:
            raise ConnectionError("no clock")

    runner = make(fails, clock=Broken(), max_concurrent_steps=1)
    slot = await runner.slots.acquire(None, 3)
    with pytest.raises(ConnectionError):
        await run(runner, call(fails, 0, policy=replace(POLICY, total_timeout=60)))
    slot.release()


async def test_waiting_for_a_pool_is_not_attempt_time(make: Make) -> None:
    """The timeout of an attempt counts from its start, not from the wait for a slot."""

    async def step() -> None:
        await asyncio.sleep(0.1)

    runner = make(step, pools={"paced": 1})
    policy = StepPolicy(attempts=1, timeout=0.25, pool="paced")
    outcomes = await asyncio.gather(*(run(runner, call(step, policy=policy)) for _ in range(5)))
    assert outcomes == [Outcome(None)] * 5


@pytest.mark.parametrize("threaded", [True, False])
async def test_limits(make: Make, threaded: bool) -> None:
    """Pool and process limits hold for async and sync steps."""
    lock, now, most = threading.Lock(), 0, 0

    def move(by: int) -> None:
        nonlocal now, most
        with lock:
            now += by
            most = max(most, now)

    async def slow() -> None:
        move(1)
        await asyncio.sleep(0.02)
        move(-1)

    def fast() -> None:
        move(1)
        time.sleep(0.02)
        move(-1)

    step = fast if threaded else slow
    runner = make(step, pools={"paced": 2}, max_concurrent_steps=4)
    paced = call(step, policy=replace(POLICY, pool="paced"))
    await asyncio.gather(*(run(runner, paced) for _ in range(10)))
    assert most == 2
    await asyncio.gather(*(run(runner, call(step)) for _ in range(12)))
    assert most == 4


async def test_priority(make: Make) -> None:
    """In a backlog steps run by priority."""
    order: list[int] = []

    async def step(number: int) -> None:
        order.append(number)
        await asyncio.sleep(0.01)

    runner = make(step, pools={"paced": 1})
    policy = replace(POLICY, pool="paced")
    calls = [call(step, n, policy=replace(policy, priority=n)) for n in (3, 5, 4, 1, 2)]
    await asyncio.gather(*(run(runner, one) for one in calls))
    assert order == [3, 1, 2, 4, 5]


async def test_a_slot_is_free_between_attempts(make: Make) -> None:
    """A step that waits for its next attempt holds no slot."""
    policy = StepPolicy(retry_interval=60, pool="paced")
    runner = make(fails, pools={"paced": 1})
    waiting = asyncio.ensure_future(run(runner, call(fails, 1, policy=policy)))
    assert await run(runner, call(fails, 0, policy=policy)) == Outcome(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_timed_out_attempts(make: Make) -> None:
    """The first attempt hangs, the second works; if all hang: timeout, exhausted."""

    async def step(hangs: int) -> int:
        await asyncio.sleep(60 if step_attempt() <= hangs else 0)
        return step_attempt()

    policy = replace(POLICY, attempts=2, timeout=0.05)
    runner = make(step)
    assert await run(runner, call(step, 1, policy=policy)) == Outcome(2)
    error = await error_of(runner, call(step, 2, policy=policy))
    assert (error.reason, error.exhausted) == (Reason.TIMEOUT, True)


async def test_heartbeats_reach_the_next_attempt(make: Make) -> None:
    """Each attempt reads what the one before reported last; a silent one passes it on."""
    seen: list[Any] = []

    def step() -> None:
        seen.append(last_heartbeat())
        if step_attempt() == 1:
            heartbeat(6)
            heartbeat(7)
        if step_attempt() < 4:
            raise ValueError

    book = Book()
    await run(make(step), call(step, policy=replace(POLICY, attempts=4)), book)
    assert seen == [None, 7, 7, 7]
    assert [state.heartbeat for state in book.saved if state.made] == [7, 7, 7]


@pytest.mark.parametrize("threaded", [True, False])
async def test_heartbeats_are_durable_soon_and_rare(make: Make, threaded: bool) -> None:
    """The first beat is written at once, the latest within a second, at most two a second."""

    async def slow() -> None:
        for number in range(130):
            heartbeat(number)
            await asyncio.sleep(0.01)
        await step_signal().wait()

    def fast() -> None:
        for number in range(130):
            heartbeat(number)
            time.sleep(0.01)
        while not step_signal().cancelled:
            time.sleep(0.01)

    step, book = (fast if threaded else slow), Book()
    runner = make(step)
    task = asyncio.ensure_future(run(runner, call(step), book))
    await until(lambda: book.state and book.state.heartbeat == 129)
    assert book.saved[0].heartbeat < 40
    assert {(state.made, state.error) for state in book.saved} == {(0, None)}
    gaps = [b - a for a, b in zip(book.times, book.times[1:], strict=False)]
    assert len(gaps) >= 2
    assert 0.4 < min(gaps) < 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: not runner.running)


async def test_a_cancel_writes_what_was_reported_last(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the attempt is cancelled (a stop), the last beat is in the book."""
    monkeypatch.setattr("iworkflow.core.steps.book.BEAT_INTERVAL", 60)
    book = Book()

    async def step() -> None:
        heartbeat(1)
        await asyncio.sleep(0.02)
        heartbeat(2)
        try:
            await asyncio.sleep(60)
        finally:
            heartbeat(3)

    task = asyncio.ensure_future(run(make(step), call(step), book))
    await until(lambda: book.saved)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [state.heartbeat for state in book.saved] == [1, 3]


async def test_a_beat_that_cannot_be_written(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """It fails no step: it is logged and written again."""
    book = Book(broken=1)

    async def step() -> int:
        heartbeat(1)
        await book.written.wait()
        return 7

    assert await run(make(step), call(step), book) == Outcome(7)
    assert [state.heartbeat for state in book.saved] == [1]
    assert "heartbeat could not be saved" in caplog.text


async def test_a_failure_that_cannot_be_written(make: Make) -> None:
    """A book that cannot be written after a failed attempt is raised: engine trouble."""
    with pytest.raises(ConnectionError):
        await run(make(fails), call(fails, 1), Book(broken=1))


async def test_the_result_is_dropped_on_a_cancel(make: Make) -> None:
    """A step that swallows its cancel and returns: `run` is cancelled all the same."""
    began = asyncio.Event()

    async def step() -> str:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
        return "swallowed"

    task = asyncio.ensure_future(run(make(step), call(step)))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_unknown_step(make: Make) -> None:
    """A step that the code no longer has raises, naming it and those there are."""
    operation = RunStep("gone", (), POLICY, "digest")
    with pytest.raises(LookupError, match=r"step 'gone' of run 'lead-7' .*\(steps: 'fails'\)"):
        await make(fails).run(operation, RUN, Book())


async def test_final_failures(make: Make) -> None:
    """Non-retryable, unencodable, too large: one attempt, not exhausted."""

    async def refuse() -> None:
        raise non_retryable("no", type="Refused")

    async def odd() -> Any:
        return object()

    async def large() -> str:
        return "x" * 100

    async def listed() -> None:
        raise FileNotFoundError("gone")

    runner = make(refuse, odd, large, listed, max_payload=50)
    policy = replace(POLICY, non_retryable_types=("OSError",))
    types = ["Refused", "EncodeError", "PayloadTooLarge", "FileNotFoundError"]
    for step, type in zip((refuse, odd, large, listed), types, strict=True):
        book = Book()
        error = await error_of(runner, call(step, policy=policy), book)
        assert (error.type, error.reason, error.exhausted) == (type, Reason.FAILED, False)
        assert book.saved == []


async def test_step_info(make: Make) -> None:
    """A step is told where it runs and until when."""
    found: list[Any] = []

    async def step() -> None:
        found.append(step_info())

    runner = make(step, pools={"paced": 1})
    before = datetime.now(UTC)
    await run(runner, call(step, policy=replace(POLICY, pool="paced", timeout=60)))
    (info,) = found
    assert (info.workflow_id, info.run_id, info.app) == ("lead-7", "run-1", "steps-test")
    assert (info.flow, info.step, info.attempt, info.pool) == ("outreach", "step", 1, "paced")
    assert 60 <= (info.deadline - before).total_seconds() < 70


async def test_a_timeout_beyond_the_calendar(make: Make) -> None:
    """An attempt may have more time than there are dates; it has no deadline then."""

    async def step() -> bool:
        return step_info().deadline is None

    assert await run(make(step), call(step, policy=replace(POLICY, timeout=1e15))) == Outcome(True)


async def test_no_thread_left(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system has no thread for a sync step, the attempt fails and its slot is free."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def step() -> None: ...

    runner = make(step)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    error = await error_of(runner, call(step))
    assert (error.type, error.exhausted, runner.running) == ("RuntimeError", True, 0)


async def test_what_is_logged(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """A retry is a warning and the end an error; both name app, flow, run, step and attempt."""
    caplog.set_level(logging.DEBUG, logger="iworkflow")
    await run(make(fails), call(fails, 9, policy=replace(POLICY, attempts=2)))
    retry, final = caplog.records
    assert (retry.levelno, final.levelno) == (logging.WARNING, logging.ERROR)
    place = "[app 'steps-test', flow 'outreach', run 'lead-7']"
    assert retry.getMessage() == (
        "step 'fails': attempt 1 of 2 failed: ValueError: attempt 1; the next follows in 0.01 s "
        + place
    )
    assert final.getMessage() == (
        "step 'fails' failed at attempt 2, the last one: ValueError: attempt 2 " + place
    )
    assert retry.exc_info is None
    assert final.exc_info is not None
    assert vars(final)["iworkflow_attempt"] == 2
    assert retry.name.startswith("iworkflow.")


async def test_benign_failures_log_no_error(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """A benign failure has the same outcome, and nothing above information is logged."""
    caplog.set_level(logging.DEBUG, logger="iworkflow")

    async def step() -> None:
        raise Failure("not yet", benign=True)

    error = await error_of(make(step), call(step, policy=replace(POLICY, attempts=2)))
    assert error == ErrorData("not yet", Reason.FAILED, "Failure", exhausted=True)
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.INFO]
    assert not any(record.exc_info for record in caplog.records)


async def test_drain_waits_for_running_attempts(make: Make) -> None:
    """A drain starts nothing new, lets what runs finish, and tells that all ended."""
    go, ran = asyncio.Event(), []

    async def step(number: int) -> int:
        ran.append(number)
        await go.wait()
        return number

    runner = make(step, max_concurrent_steps=1)
    first = asyncio.ensure_future(run(runner, call(step, 1)))
    second = asyncio.ensure_future(run(runner, call(step, 2)))
    await until(lambda: ran)
    drained = asyncio.ensure_future(runner.drain(10))
    await asyncio.sleep(0.01)
    assert not drained.done()
    go.set()
    assert await drained
    assert await first == Outcome(1)
    third = asyncio.ensure_future(run(runner, call(step, 3)))
    await asyncio.sleep(0.01)
    assert ran == [1]
    for task in (second, third):
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_drain_gives_up_after_the_grace(make: Make) -> None:
    """When the grace is over a drain says so, and cancels nothing."""
    go = asyncio.Event()

    async def step() -> int:
        await go.wait()
        return 1

    runner = make(step)
    task = asyncio.ensure_future(run(runner, call(step)))
    await until(lambda: runner.running)
    assert not await runner.drain(0.02)
    assert not await runner.drain(0)
    go.set()
    assert await task == Outcome(1)


async def test_drain_with_nothing_to_wait_for(make: Make) -> None:
    """With no attempt running a drain returns at once, also without grace."""
    assert await make(fails).drain(0)


async def test_a_failed_attempt_is_kept_during_a_drain(make: Make) -> None:
    """An attempt that fails during a drain is in the book, so that another worker goes on."""
    go, book = asyncio.Event(), Book()

    async def step() -> None:
        await go.wait()
        raise ValueError

    runner = make(step)
    task = asyncio.ensure_future(run(runner, call(step), book))
    await until(lambda: runner.running)
    drained = asyncio.ensure_future(runner.drain(5))
    await asyncio.sleep(0)
    go.set()
    await drained
    await until(lambda: book.saved)
    assert book.saved[0].made == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_blocked_sync_step_keeps_its_slot(make: Make) -> None:
    """The next attempt of a step in a full pool starts when the thread really ended."""
    go, began = threading.Event(), threading.Event()

    def step() -> int:
        if step_attempt() == 1:
            began.set()
            go.wait(10)
        return step_attempt()

    runner = make(step, pools={"paced": 1})
    policy = replace(POLICY, timeout=0.5, pool="paced")
    book = Book()
    task = asyncio.ensure_future(run(runner, call(step, policy=policy), book))
    await until(lambda: book.saved)
    await asyncio.sleep(0.05)
    assert (runner.running, task.done()) == (1, False)
    go.set()
    assert await task == Outcome(2)


async def test_sync_steps_do_not_hold_the_loop(make: Make) -> None:
    """While sync steps block their threads, others go on, as many as the limit allows."""
    go = threading.Event()

    def block() -> None:
        go.wait(10)

    runner = make(block, fails, max_concurrent_steps=40)
    tasks = [asyncio.ensure_future(run(runner, call(block))) for _ in range(39)]
    await until(lambda: runner.running == 39)
    assert await run(runner, call(fails, 0)) == Outcome(1)
    go.set()
    await asyncio.gather(*tasks)


async def test_many_cancels_leak_nothing(make: Make) -> None:
    """Steps cancelled at any moment give their slots back."""

    async def step() -> None:
        heartbeat(1)
        await asyncio.sleep(0.001)
        if step_attempt() == 1:
            raise ValueError

    runner = make(step, pools={"paced": 2}, max_concurrent_steps=3)
    policy = StepPolicy(retry_interval=0.001, pool="paced", total_timeout=5)
    for turns in range(40):
        tasks: list[asyncio.Task[Outcome]] = []
        for _ in range(6):
            task = asyncio.ensure_future(run(runner, call(step, policy=policy)))
            tasks.append(task)
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert runner.running == 0


async def test_attempts_one_by_one(make: Make) -> None:
    """An engine that waits itself gets the state to go on from, and then the outcome."""
    runner, book = make(fails), Book()
    operation = call(fails, 1, policy=StepPolicy(retry_interval=60))
    first = await runner.attempt(operation, RUN, book, AttemptState(made=0, first_at=1000.0))
    assert first.outcome is None
    assert (first.state.made, first.state.first_at) == (1, 1000.0)
    assert first.state.next_at is not None
    assert first.state.error == ErrorData("attempt 1", Reason.FAILED, "ValueError")
    second = await runner.attempt(operation, RUN, book, first.state)
    assert second.outcome == Outcome(2)
    assert book.saved == []
