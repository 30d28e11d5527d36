"""The runtime over a small worker: start once, done, stop, and the block of `running`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from iworkflow.core.runtime import Runtime

if TYPE_CHECKING:
    from iworkflow.core.definition import AppDefinition

APP = cast("AppDefinition", object())  # the worker below does not look at it


class Worker:
    """A worker engine that starts, breaks and stops as told, and notes the calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.begin: Callable[[], Awaitable[object]] = _at_once
        self.end: Callable[[], Awaitable[object]] = _at_once
        self._breaking: asyncio.Future[BaseException] = asyncio.Future()
        self.started = asyncio.Event()

    async def start(self, app: AppDefinition) -> None:
        self.calls.append(("start", app))
        self.started.set()
        await self.begin()

    async def broken(self) -> BaseException:
        return await asyncio.shield(self._breaking)

    async def stop(self, grace: float) -> None:
        self.calls.append(("stop", grace))
        await self.end()

    def break_with(self, error: BaseException) -> None:
        self._breaking.set_result(error)


async def _at_once() -> None:
    """Return at once."""


async def _fail() -> None:
    raise ConnectionError("cannot reach the server")


async def _for_ever() -> None:
    await asyncio.Event().wait()


@pytest.fixture
async def worker() -> Worker:
    return Worker()


@pytest.fixture
async def runtime(worker: Worker) -> Runtime:
    return Runtime(worker)


async def test_a_stop_ends_done(runtime: Runtime, worker: Worker) -> None:
    """`done` waits while the worker runs and returns, for every waiter, once it is stopped."""
    await runtime.start(APP)
    waiters = [asyncio.create_task(runtime.done()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(waiter.done() for waiter in waiters)
    await runtime.stop(grace=2)
    await asyncio.gather(*waiters)
    assert worker.calls == [("start", APP), ("stop", 2.0)]


async def test_a_second_start_is_refused(runtime: Runtime, worker: Worker) -> None:
    """A runtime starts once; the second start says so and disturbs nothing."""
    await runtime.start(APP)
    with pytest.raises(
        RuntimeError, match="was started before; it runs one app once, make another"
    ):
        await runtime.start(APP)
    assert worker.calls == [("start", APP)]
    await runtime.stop()


async def test_a_stopped_runtime_does_not_start(runtime: Runtime, worker: Worker) -> None:
    """A runtime that was stopped before its start touches no engine and cannot be started."""
    await runtime.stop()
    await runtime.done()
    with pytest.raises(RuntimeError, match="this runtime is stopped; make another"):
        await runtime.start(APP)
    assert worker.calls == []


async def test_a_failed_start_closes_and_is_raised(runtime: Runtime, worker: Worker) -> None:
    """What a start opened is closed, its failure raised, there and by `done`, early waiters too."""
    early = asyncio.create_task(runtime.done())
    worker.begin = _fail
    with pytest.raises(ConnectionError, match="cannot reach the server"):
        await runtime.start(APP)
    assert worker.calls == [("start", APP), ("stop", 0.0)]
    for waiter in (early, runtime.done()):
        with pytest.raises(ConnectionError, match="cannot reach the server"):
            await waiter


async def test_a_failed_start_keeps_its_error(runtime: Runtime, worker: Worker) -> None:
    """A shutdown that fails after a failed start is a note on the start's error."""
    worker.begin = _fail

    async def fail_too() -> None:
        raise OSError("socket gone")

    worker.end = fail_too
    with pytest.raises(ConnectionError) as caught:
        await runtime.start(APP)
    assert caught.value.__notes__ == [
        "the worker did not stop cleanly either: OSError: socket gone"
    ]


async def test_a_cancelled_start_closes(runtime: Runtime, worker: Worker) -> None:
    """A cancel of the start closes what was opened; `done` raises an error, not the cancel."""
    worker.begin = _for_ever
    start = asyncio.create_task(runtime.start(APP))
    await worker.started.wait()
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert worker.calls[-1] == ("stop", 0.0)
    with pytest.raises(RuntimeError, match="the start of this runtime was cancelled"):
        await runtime.done()


async def test_a_stop_gives_up_a_start(runtime: Runtime, worker: Worker) -> None:
    """A stop while the start goes on ends it: the start raises, `done` returns."""
    worker.begin = _for_ever
    start = asyncio.create_task(runtime.start(APP))
    await worker.started.wait()
    await runtime.stop(grace=1)
    with pytest.raises(RuntimeError, match="was stopped before it had started"):
        await start
    await runtime.done()
    assert worker.calls == [("start", APP), ("stop", 1.0)]


async def test_a_broken_worker_ends_done(runtime: Runtime, worker: Worker) -> None:
    """`done` raises what broke the worker, for every waiter, and again after the stop."""
    await runtime.start(APP)
    waiters = [asyncio.create_task(runtime.done()) for _ in range(2)]
    worker.break_with(OSError("the database is gone"))
    for result in await asyncio.gather(*waiters, return_exceptions=True):
        assert repr(result) == "OSError('the database is gone')"
    await runtime.stop()
    with pytest.raises(OSError, match="the database is gone"):
        await runtime.done()
    assert worker.calls[-1] == ("stop", 10.0)


async def test_the_first_failure_is_kept(runtime: Runtime, worker: Worker) -> None:
    """A shutdown that fails after a break leaves `done` with what broke the worker."""
    await runtime.start(APP)
    worker.break_with(OSError("the database is gone"))
    with pytest.raises(OSError, match="gone"):
        await runtime.done()
    worker.end = _fail
    with pytest.raises(ConnectionError):
        await runtime.stop()
    with pytest.raises(OSError, match="the database is gone"):
        await runtime.done()


async def test_stop_is_idempotent(runtime: Runtime, worker: Worker) -> None:
    """Stops, at once and later, stop the worker one time."""
    await runtime.start(APP)
    await asyncio.gather(runtime.stop(1), runtime.stop(2))
    await runtime.stop(3)
    assert worker.calls == [("start", APP), ("stop", 1.0)]


async def test_a_failed_stop_ends_done(runtime: Runtime, worker: Worker) -> None:
    """A shutdown that fails is raised by `stop` and ends `done`, which raises it too."""
    await runtime.start(APP)
    worker.end = _fail
    with pytest.raises(ConnectionError):
        await runtime.stop()
    async with asyncio.timeout(1):
        with pytest.raises(ConnectionError):
            await runtime.done()


async def test_a_cancelled_stop_goes_on(runtime: Runtime, worker: Worker) -> None:
    """A cancel of whoever stops leaves the shutdown going on to its end."""
    ending, may_end = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        ending.set()
        await may_end.wait()

    worker.end = slowly
    await runtime.start(APP)
    stop = asyncio.create_task(runtime.stop())
    await ending.wait()
    stop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stop
    may_end.set()
    await runtime.done()


@pytest.mark.parametrize("grace", [-1, float("nan"), float("inf")])
async def test_a_bad_grace_is_refused(runtime: Runtime, grace: float) -> None:
    """A grace that is no length of time is refused before anything is stopped."""
    with pytest.raises(ValueError, match="grace must be 0 or more"):
        await runtime.stop(grace)
    with pytest.raises(ValueError, match="grace must be 0 or more"):
        runtime.running(APP, grace=grace)


async def test_running_starts_and_stops(runtime: Runtime, worker: Worker) -> None:
    """The block runs between start and stop, and gives the runtime."""
    async with runtime.running(APP, grace=4) as entered:
        assert entered is runtime
        assert worker.calls == [("start", APP)]
    assert worker.calls == [("start", APP), ("stop", 4.0)]
    await runtime.done()


async def test_running_stops_after_an_error(runtime: Runtime, worker: Worker) -> None:
    """An error of the block is raised as it is, after the stop."""
    with pytest.raises(KeyError):
        async with runtime.running(APP):
            raise KeyError("mine")
    assert worker.calls[-1] == ("stop", 10.0)


async def test_a_break_interrupts_the_block(runtime: Runtime, worker: Worker) -> None:
    """A worker that breaks cancels the block and is raised in its place; the task goes on."""

    async def body() -> None:
        async with runtime.running(APP):
            worker.break_with(OSError("gone"))
            await _for_ever()

    with pytest.raises(OSError, match="gone") as caught:
        await body()
    assert caught.value.__cause__ is None
    assert worker.calls[-1] == ("stop", 10.0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_a_break_is_raised_though_the_block_ends(runtime: Runtime, worker: Worker) -> None:
    """A break at the very end of the block, seen by no await in it, is raised all the same."""

    async def body() -> None:
        async with runtime.running(APP):
            await asyncio.sleep(0)  # lets the watch begin
            worker.break_with(OSError("gone"))

    with pytest.raises(OSError, match="gone"):
        await body()


async def test_a_break_is_raised_though_the_block_swallows(
    runtime: Runtime, worker: Worker
) -> None:
    """A block that swallows the cancel, or fails over it, still ends in what broke the worker."""

    async def body() -> None:
        async with runtime.running(APP):
            worker.break_with(OSError("gone"))
            try:
                await _for_ever()
            finally:
                raise KeyError("clean-up")

    with pytest.raises(OSError, match="gone") as caught:
        await body()
    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_cancel_from_outside_stays_one(runtime: Runtime, worker: Worker) -> None:
    """A cancel from outside stops the worker and goes on as a cancel, also next to a break."""
    entered = asyncio.Event()

    async def body() -> None:
        async with runtime.running(APP):
            entered.set()
            await _for_ever()

    task = asyncio.create_task(body())
    await entered.wait()
    worker.break_with(OSError("gone"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert worker.calls[-1] == ("stop", 10.0)


async def test_a_failed_stop_after_an_error_is_a_note(runtime: Runtime, worker: Worker) -> None:
    """An error of the shutdown does not hide the block's own."""
    worker.end = _fail
    with pytest.raises(KeyError) as caught:
        async with runtime.running(APP):
            raise KeyError("mine")
    assert caught.value.__notes__ == [
        "the worker did not stop cleanly either: ConnectionError: cannot reach the server"
    ]


async def test_a_failed_stop_is_raised_by_the_block(runtime: Runtime, worker: Worker) -> None:
    """Where the block ends well, an error of the shutdown is raised."""
    worker.end = _fail
    with pytest.raises(ConnectionError):
        async with runtime.running(APP):
            pass


async def test_a_watch_that_fails_breaks_the_worker() -> None:
    """A worker whose `broken` raises counts as broken by that."""

    class Unwatchable(Worker):
        async def broken(self) -> BaseException:
            raise OSError("watch gone")

    runtime = Runtime(Unwatchable())
    await runtime.start(APP)
    with pytest.raises(OSError, match="watch gone"):
        await runtime.done()
    await runtime.stop()
