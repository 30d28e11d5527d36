"""One attempt, whatever the step does."""

import asyncio
import functools
import logging
import os
import signal as signals
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from iworkflow.core.definition import AppDefinition
from iworkflow.core.errors import Failure, Reason, non_retryable
from iworkflow.core.options import StepPolicy
from iworkflow.core.steps import (
    Returned,
    StepError,
    StepInfo,
    StepScope,
    StepSignal,
    StepThreads,
    attempt,
    heartbeat,
    run_attempt,
    step_attempt,
    step_scope,
    step_signal,
)


@dataclass
class Lead:
    name: str
    age: int = 0


POLICY = StepPolicy()


@pytest.fixture
def threads() -> Iterator[StepThreads]:
    threads = StepThreads()
    yield threads
    threads.close()


@dataclass
class Trial:
    """One attempt of a function: its outcome, its scope, and whether its slot was given back."""

    threads: StepThreads

    def begin(
        self, fn: Callable[..., Any], *args: Any, policy: StepPolicy = POLICY, **more: Any
    ) -> "asyncio.Task[Returned | StepError]":
        app = AppDefinition("steps-test", flows=(), activities={"step": fn})
        self.ended = asyncio.Event()
        self.scope = StepScope(StepInfo("w", "r", "steps-test", "f", "step", 1))
        return asyncio.ensure_future(
            run_attempt(
                app.activities["step"],
                args,
                self.scope,
                policy=policy,
                threads=self.threads,
                on_end=self.ended.set,
                **more,
            )
        )

    async def __call__(self, fn: Callable[..., Any], *args: Any, **more: Any) -> Any:
        result = await asyncio.wait_for(self.begin(fn, *args, **more), 10)
        await asyncio.wait_for(self.ended.wait(), 10)
        return result


@pytest.fixture
def trial(threads: StepThreads) -> Trial:
    return Trial(threads)


async def plain(lead: Lead) -> Lead:
    return Lead(lead.name.upper(), lead.age + 1)


def sync(lead: Lead) -> Lead:
    assert threading.current_thread() is not threading.main_thread()
    return Lead(lead.name.upper(), lead.age + 1)


def decorated(fn: Callable[..., Awaitable[Lead]]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any) -> Any:
        return fn(*args)

    return wrapper


class Calls:
    async def method(self, lead: Lead) -> Lead:
        return await plain(lead)

    async def __call__(self, lead: Lead) -> Lead:
        return await plain(lead)


async def scaled(factor: int, lead: Lead) -> Lead:
    return Lead(lead.name.upper(), lead.age + factor)


@pytest.mark.parametrize(
    "fn",
    [
        plain,
        sync,
        decorated(plain),
        Calls().method,
        Calls(),
        functools.partial(scaled, 1),
        functools.partial(sync),
    ],
)
async def test_callables_of_every_sort(trial: Trial, fn: Callable[..., Any]) -> None:
    """Functions, methods, partials, objects, wrappers that return an awaitable: all are steps."""
    assert await trial(fn, {"name": "ann", "age": 4}) == Returned({"name": "ANN", "age": 5})


async def test_raises(trial: Trial) -> None:
    """What a step raises is described; a sync and an async one alike."""

    async def slow() -> None:
        raise Failure("no", type="Quota", details=[1])

    def fast() -> None:
        raise Failure("no", type="Quota", details=[1])

    assert await trial(slow) == await trial(fast)
    error = await trial(fast)
    assert (error.error.type, error.error.details, error.retryable) == ("Quota", [1], True)
    final = await trial(fast, policy=StepPolicy(non_retryable_types=("Quota",)))
    assert not final.retryable


FATAL = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, StopIteration]


@pytest.mark.parametrize("exc", FATAL)
async def test_raises_what_ends_programs(trial: Trial, exc: type[BaseException]) -> None:
    """Raised by the step itself, each is a failed attempt: no cancel, no end of the worker."""

    async def slow() -> None:
        await asyncio.sleep(0)
        raise exc("mine")

    def fast() -> None:
        raise exc("mine")

    assert (await trial(fast)).error.type == exc.__name__
    error = await trial(slow)
    assert isinstance(error, StepError)
    wrapped = "RuntimeError" if exc is StopIteration else exc.__name__
    assert error.error.type == wrapped
    assert error.retryable


@pytest.mark.parametrize("late", [True, False])
async def test_cancels_itself(trial: Trial, late: bool) -> None:
    """A step that cancels its own task has failed, wherever the cancel strikes."""

    async def step() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if late:
            await asyncio.sleep(0)

    error = await trial(step)
    assert error.error.type == "CancelledError"
    assert error.retryable


async def test_a_cancelled_helper_task_is_no_cancel(trial: Trial) -> None:
    """A `CancelledError` out of a task that the step awaits fails the attempt."""

    async def step() -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    assert (await trial(step)).error.type == "CancelledError"


async def test_arguments_that_do_not_fit(trial: Trial) -> None:
    """Stored arguments that no longer fit the signature are a final `DecodeError`."""
    for args in ([{"name": 1}], [], [{"name": "a"}, 2]):
        error = await trial(plain, *args)
        assert (error.error.type, error.retryable) == ("DecodeError", False)


@dataclass
class Bomb:
    n: int

    def __post_init__(self) -> None:
        raise SystemExit(self.n)


async def test_arguments_that_explode(trial: Trial) -> None:
    """A `SystemExit` while arguments are read is a `DecodeError` as well."""

    async def step(bomb: Bomb) -> None: ...

    assert (await trial(step, {"n": 1})).error.type == "DecodeError"


async def test_results_that_cannot_be_encoded(trial: Trial) -> None:
    """An unencodable result, a forgotten await included, is a final `EncodeError`."""

    async def thing() -> Any:
        return {"a": [object()]}

    async def forgotten() -> Any:
        return plain(Lead("x"))

    for fn in (thing, forgotten):
        error = await trial(fn)
        assert (error.error.type, error.retryable) == ("EncodeError", False)
        assert "step 'step': result" in error.error.message


async def test_a_result_that_is_too_large(trial: Trial) -> None:
    """A result over the limit is a final `PayloadTooLarge`."""

    async def step() -> str:
        return "x" * 100

    error = await trial(step, max_payload=50)
    assert (error.error.type, error.retryable) == ("PayloadTooLarge", False)
    assert "step 'step': result" in error.error.message


async def test_timeout_cancels_an_async_step(trial: Trial) -> None:
    """An attempt over its timeout is cancelled, its `finally` runs, its signal says why."""
    seen: list[Any] = []

    async def step() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "swallowed"
        finally:
            seen.append(step_signal().reason)
        return "late"

    error = await trial(step, policy=StepPolicy(timeout=0.05))
    assert (error.error.reason, error.error.type) == (Reason.TIMEOUT, None)
    assert error.error.message == "the attempt took longer than its timeout of 0.05 s"
    assert seen == ["timeout"]


async def test_timeout_leaves_a_sync_step(trial: Trial) -> None:
    """A sync step over its timeout is left: the attempt ends at once, its slot when it ends."""
    go = threading.Event()
    seen: list[StepSignal] = []

    def step() -> None:
        seen.append(step_signal())
        go.wait(30)

    attempt = trial.begin(step, policy=StepPolicy(timeout=0.5))
    error = await asyncio.wait_for(attempt, 10)
    assert isinstance(error, StepError)
    assert error.error.reason == Reason.TIMEOUT
    assert seen[0].reason == "timeout"
    assert not trial.ended.is_set()
    go.set()
    await asyncio.wait_for(trial.ended.wait(), 5)


@pytest.mark.parametrize("threaded", [True, False])
async def test_heartbeat_timeout(trial: Trial, threaded: bool) -> None:
    """A step that stops beating is cancelled; beats hold it, however long it takes."""
    policy = StepPolicy(heartbeat_timeout=1)
    begin = time.monotonic()

    async def step() -> None:
        for _ in range(10):
            heartbeat()
            await asyncio.sleep(0.15)
        await step_signal().wait()

    def sync_step() -> None:
        for _ in range(10):
            heartbeat()
            time.sleep(0.15)
        while not step_signal().cancelled:
            time.sleep(0.01)

    error = await trial(sync_step if threaded else step, policy=policy)
    assert time.monotonic() - begin > 2.3
    assert error.error.reason == Reason.TIMEOUT
    assert "heartbeat_timeout of 1 s" in error.error.message
    assert trial.scope.signal.reason == "heartbeat-timeout"


async def test_cancel(trial: Trial) -> None:
    """A cancel cancels the step, waits for its clean-up and drops what it returns."""
    began, cleaned = asyncio.Event(), asyncio.Event()

    async def step() -> str:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            cleaned.set()
        return "swallowed"

    attempt = trial.begin(step)
    await began.wait()
    attempt.cancel("terminated")
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert cleaned.is_set()
    assert trial.ended.is_set()
    assert trial.scope.signal.reason == "terminated"


async def test_cancel_of_a_sync_step(trial: Trial) -> None:
    """A cancelled sync step sees it, may leave by `raise_if_cancelled`, and beats no more."""
    began, left = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def step() -> None:
        heartbeat(1)
        loop.call_soon_threadsafe(began.set)
        try:
            while True:
                step_signal().raise_if_cancelled()
                time.sleep(0.01)
        finally:
            heartbeat(2)
            left.set()

    attempt = trial.begin(step)
    await began.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(attempt, 10)
    await asyncio.wait_for(trial.ended.wait(), 10)
    assert left.is_set()
    assert trial.scope.latest == 1
    assert trial.scope.signal.reason == "cancelled"


async def test_a_step_that_ignores_its_cancel(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left to itself with a warning, and its slot is free only when it ends."""
    monkeypatch.setattr(attempt, "CLEANUP_TIME", 0.05)
    go = asyncio.Event()

    async def step() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    error = await asyncio.wait_for(trial.begin(step, policy=StepPolicy(timeout=0.05)), 5)
    assert isinstance(error, StepError)
    assert error.error.reason == Reason.TIMEOUT
    assert ["ignores its cancel (timeout)" in r.getMessage() for r in caplog.records] == [True]
    assert not trial.ended.is_set()
    go.set()
    await asyncio.wait_for(trial.ended.wait(), 5)


async def test_a_second_cancel_does_not_wait(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second cancel ends the wait for the clean-up."""
    monkeypatch.setattr(attempt, "CLEANUP_TIME", 60)
    began, go = asyncio.Event(), asyncio.Event()

    async def step() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            await go.wait()

    running = trial.begin(step)
    await began.wait()
    running.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 10)
    go.set()
    await asyncio.wait_for(trial.ended.wait(), 5)


async def test_a_step_that_blocks_the_loop(trial: Trial) -> None:
    """A step that blocks the loop past its timeout and returns has returned: nothing is lost."""

    async def step() -> int:
        time.sleep(0.1)  # noqa: ASYNC251
        return 7

    assert await trial(step, policy=StepPolicy(timeout=0.05)) == Returned(7)


async def test_a_step_that_leaks_a_task(trial: Trial) -> None:
    """A leaked task does not hold the attempt; what it reports later is not taken."""
    go, reported = asyncio.Event(), asyncio.Event()
    leaked: list[asyncio.Task[None]] = []

    async def leak() -> None:
        await go.wait()
        heartbeat("late")
        reported.set()

    async def step() -> int:
        leaked.append(asyncio.ensure_future(leak()))
        return 1

    assert await trial(step) == Returned(1)
    go.set()
    await asyncio.wait_for(reported.wait(), 5)
    assert trial.scope.latest is None


@pytest.mark.parametrize("kind", ["async", "sync", "awaitable"])
async def test_the_scope_reaches_the_step_and_stays_there(trial: Trial, kind: str) -> None:
    """The scope is set in the step, in its tasks and in its thread, and not for the caller."""

    async def slow() -> int:
        return await asyncio.ensure_future(inner())

    async def inner() -> int:
        await asyncio.sleep(0)
        return step_attempt()

    def fast() -> int:
        return step_attempt()

    def both() -> Any:
        assert step_attempt() == 1
        return inner()

    fn = {"async": slow, "sync": fast, "awaitable": both}[kind]
    assert await trial(fn) == Returned(1)
    assert step_scope.get(None) is None


async def test_a_final_failure_of_a_sync_step(trial: Trial) -> None:
    """`non_retryable` in a sync step is final."""

    def step() -> None:
        raise non_retryable("no", type="Refused")

    assert not (await trial(step)).retryable


async def test_threads_are_used_again(threads: StepThreads) -> None:
    """Jobs one after another run in one thread; jobs at once in as many as there are."""
    names: list[str] = []
    loop = asyncio.get_running_loop()

    async def run(wait: threading.Event | None = None) -> None:
        done = asyncio.Event()

        def job() -> None:
            names.append(threading.current_thread().name)
            if wait is not None:
                wait.wait(5)
            loop.call_soon_threadsafe(done.set)

        threads.submit(job)
        await asyncio.wait_for(done.wait(), 5)

    for _ in range(5):
        await run()
        while not threads.idle:
            await asyncio.sleep(0.001)
    assert len(set(names)) == 1
    names.clear()
    gate = threading.Event()
    jobs = [asyncio.ensure_future(run(gate)) for _ in range(8)]
    while len(names) < 8:
        await asyncio.sleep(0.001)
    gate.set()
    await asyncio.gather(*jobs)
    assert len(set(names)) == 8


BLOCKED = """
import asyncio, threading
from iworkflow.core.steps import StepThreads
threads = StepThreads()
threads.submit(threading.Event().wait)
threads.close()
print("end")
"""


def test_a_blocked_thread_does_not_keep_the_process() -> None:
    """A sync step that blocks for ever does not keep a stopped worker alive."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == "end\n"


INTERRUPTED = """
import asyncio
from iworkflow.core.definition import AppDefinition
from iworkflow.core.options import StepPolicy
from iworkflow.core.steps import *

async def step() -> None:
    print("began", flush=True)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("cleaned", flush=True)
        raise

async def main():
    app = AppDefinition("steps-test", flows=(), activities=[step])
    scope = StepScope(StepInfo("w", "r", "steps-test", "f", "step", 1))
    await run_attempt(app.activities["step"], (), scope, policy=StepPolicy(), threads=StepThreads())

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_the_worker() -> None:
    """A real interrupt of the process is no failed attempt: the step cleans up, the worker ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "began\n"
        os.kill(process.pid, signals.SIGINT)
        assert process.stdout.read() == "cleaned\ninterrupted\n"


def test_logger_names() -> None:
    """All loggers of the steps are below `iworkflow`."""
    assert attempt._log.name == "iworkflow.steps"
    assert logging.getLogger("iworkflow.steps").parent is not None
