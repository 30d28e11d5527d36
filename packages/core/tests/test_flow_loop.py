"""The flow loop by itself: what is ready runs, sets iterate alike, nothing outlives the run."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest

from iworkflow.core.flow.loop import FlowLoop
from iworkflow.core.flow.waiting import as_completed, wait


class Timers:
    """Keeps the loop's timers until the test fires them."""

    def __init__(self) -> None:
        self.set: list[tuple[asyncio.TimerHandle, float]] = []
        self.cancelled: list[asyncio.TimerHandle] = []

    def timer_set(self, handle: asyncio.TimerHandle, delay: float) -> None:
        self.set.append((handle, delay))

    def timer_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self.cancelled.append(handle)


def new_loop(start: float = 0.0) -> FlowLoop:
    return FlowLoop(Timers(), start=start)  # type: ignore[abstract]


def run(loop: FlowLoop, main: Coroutine[Any, Any, Any]) -> Any:
    task = loop.create_task(main)
    loop.run_until_idle()
    return task.result()


def test_run_until_idle_runs_what_is_ready_in_order() -> None:
    """Handles run first in, first out, and those that they queue run in the same call."""
    loop, seen = new_loop(), list[str]()

    def first() -> None:
        seen.append("a")
        loop.call_soon(seen.append, "c")

    loop.call_soon(first)
    loop.call_soon(seen.append, "b")
    loop.run_until_idle()
    assert seen == ["a", "b", "c"]


async def test_the_outer_loop_and_task_are_back_afterwards() -> None:
    """A flow loop nests in another loop, and both know their own loop and current task."""
    outer, task, inner = asyncio.get_running_loop(), asyncio.current_task(), new_loop()

    async def main() -> tuple[Any, Any]:
        await asyncio.sleep(0)
        return asyncio.get_running_loop(), asyncio.current_task()

    main_task = inner.create_task(main())
    inner.run_until_idle()
    assert main_task.result() == (inner, main_task)
    assert asyncio.get_running_loop() is outer
    assert asyncio.current_task() is task


async def _orders() -> tuple[list[int], list[int], list[int]]:
    """Iterate over three sets that asyncio builds: of `wait`, of futures, of a task group."""

    async def item(n: int) -> int:
        await asyncio.sleep(0)
        return n

    done, _ = await asyncio.wait([asyncio.ensure_future(item(n)) for n in range(40)])
    futures = {asyncio.get_running_loop().create_future() for _ in range(40)}
    for n, future in enumerate(futures):
        future.set_result(n)
    cancelled: list[int] = []

    async def abort(n: int) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.append(n)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError

    try:
        async with asyncio.TaskGroup() as group:
            for n in range(40):
                group.create_task(abort(n))
            group.create_task(fail())
    except* ValueError:
        pass
    return [t.result() for t in done], [hash(f) for f in futures], cancelled


def test_sets_of_tasks_iterate_alike_on_every_run() -> None:
    """`wait`'s sets and the abort of a TaskGroup go in one order, however memory lies."""
    first = run(new_loop(), _orders())
    held: list[list[object]] = []
    for _ in range(20):
        held.append([object() for _ in range(len(held) * 7)])
        assert run(new_loop(), _orders()) == first


def test_time_stands_still_until_it_is_advanced() -> None:
    """`time()` starts at `start`, moves by `advance`, and never back."""
    loop = new_loop(100.0)
    assert loop.time() == 100.0
    loop.advance(105.5)
    loop.advance(90.0)
    assert loop.time() == 105.5


def test_a_timer_is_handed_out_with_its_delay_and_its_cancel() -> None:
    """`call_later`, `call_at` and `sleep` become timers; cancelling one is told."""
    timers = Timers()
    loop = FlowLoop(timers, start=10.0)  # type: ignore[abstract]
    loop.call_later(5, print)
    handle = loop.call_at(12.5, print)
    task = loop.create_task(asyncio.sleep(7))
    loop.run_until_idle()
    handle.cancel()
    task.cancel()
    loop.run_until_idle()
    assert [delay for _, delay in timers.set] == [5, 2.5, 7]
    assert timers.cancelled == [handle, timers.set[2][0]]


def test_a_timer_in_the_past_needs_no_engine() -> None:
    """A deadline that has passed is ready at once and draws no operation."""
    timers, seen = Timers(), list[str]()
    loop = FlowLoop(timers, start=10.0)  # type: ignore[abstract]
    loop.call_at(9.0, seen.append, "now")
    loop.run_until_idle()
    assert seen == ["now"]
    assert timers.set == []


@pytest.mark.parametrize(
    "call",
    [
        lambda loop: loop.run_in_executor(None, print),
        lambda loop: loop.create_connection(lambda: None, "localhost", 1),
        lambda loop: loop.subprocess_exec(lambda: None, "true"),
        lambda loop: loop.add_signal_handler(2, print),
        lambda loop: loop.call_soon_threadsafe(print),
        lambda loop: loop.add_reader(0, print),
        lambda loop: loop.connect_read_pipe(lambda: None, None),
        lambda loop: loop.set_task_factory(None),
        lambda loop: loop.run_forever(),
        lambda loop: loop.getaddrinfo("localhost", 1),
        lambda loop: loop.sock_recv(None, 1),
    ],
)
def test_io_raises_and_names_the_remedy(call: Callable[[FlowLoop], object]) -> None:
    """Whatever needs I/O, threads or signals is refused with "move it into a step"."""
    with pytest.raises(RuntimeError, match="move it into a step"):
        call(new_loop())


def test_io_through_asyncio_is_refused_too() -> None:
    """`asyncio.to_thread` and `open_connection` fail inside a flow, catchable."""

    async def main() -> list[str]:
        refused: list[str] = []
        calls: list[Awaitable[Any]] = [
            asyncio.to_thread(print),
            asyncio.open_connection("localhost", 1),
        ]
        for call in calls:
            try:
                await call
            except RuntimeError as error:
                refused.append(str(error))
        return refused

    assert all("move it into a step" in text for text in run(new_loop(), main()))


def test_abandon_runs_clean_up_and_nothing_after_it() -> None:
    """`finally` blocks run once, here; what they await does not happen, nor later collection."""
    loop, seen = new_loop(), list[str]()

    async def stubborn(name: str) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            seen.append(f"{name} closes")
            try:
                await asyncio.sleep(0)
                seen.append(f"{name} goes on")
            finally:
                seen.append(f"{name} closed")

    loop.create_task(stubborn("a"))
    loop.create_task(stubborn("b"))
    loop.run_until_idle()
    loop.abandon()
    expected = ["a closes", "a closed", "b closes", "b closed"]
    assert seen == expected
    del loop
    gc.collect()
    assert seen == expected


UNDEAD = """
import asyncio, gc
from iworkflow.core.flow.loop import FlowLoop

rounds = 0

async def undead():
    global rounds
    while True:
        try:
            await asyncio.get_running_loop().create_future()
        except BaseException:
            rounds += 1

loop = FlowLoop(None)
loop.create_task(undead())
loop.run_until_idle()
loop.abandon()
after = rounds
del loop
gc.collect()
assert rounds == after
print("closed")
"""


def test_abandon_ends_although_code_swallows_everything() -> None:
    """Code that catches everything and goes on keeps neither the engine nor the exit busy."""
    command = [sys.executable, "-c", UNDEAD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "closed\n")
    assert "cannot be closed: it swallows every exception" in done.stderr


def test_abandon_closes_what_clean_up_starts() -> None:
    """A task that a `finally` creates during the end is closed as well, unrun."""
    loop, seen = new_loop(), list[str]()

    async def late() -> None:
        seen.append("ran")

    async def main() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            asyncio.create_task(late())  # noqa: RUF006  # nobody holds it: that is the point

    loop.create_task(main())
    loop.run_until_idle()
    loop.abandon()
    gc.collect()
    assert seen == []


def test_abandoned_generators_close_in_their_own_loop() -> None:
    """An asynchronous generator's `finally` runs under its own loop, whoever collects it."""
    loop, seen = new_loop(), list[Any]()

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            seen.append(asyncio.get_running_loop())

    async def main() -> None:
        async for _ in numbers():
            await asyncio.get_running_loop().create_future()

    loop.create_task(main())
    loop.run_until_idle()
    loop.abandon()
    assert seen == [loop]


def test_a_dropped_generator_is_closed_at_once_by_its_flow() -> None:
    """Leaving an `async for` early runs the generator's clean-up soon, as in plain asyncio."""
    seen = list[str]()

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            seen.append("closed")

    async def main() -> list[str]:
        async for _ in numbers():
            break
        for _ in range(5):
            await asyncio.sleep(0)
        return list(seen)

    assert run(new_loop(), main()) == ["closed"]


def test_no_collection_starts_while_flow_code_runs() -> None:
    """Garbage collection is off inside, so that it closes nothing at a random moment; then on."""
    inside: list[bool] = []
    loop = new_loop()
    loop.call_soon(lambda: inside.append(gc.isenabled()))
    loop.run_until_idle()
    assert (inside, gc.isenabled()) == ([False], True)


def test_a_task_that_nobody_holds_lives_on() -> None:
    """Fire and forget is safe: the loop holds every task until it is done."""
    loop, seen = new_loop(), list[str]()
    futures: list[Any] = []

    async def forgotten() -> None:
        future = asyncio.get_running_loop().create_future()
        futures.append(future)
        await future
        seen.append("done")

    async def main() -> None:
        asyncio.create_task(forgotten())  # noqa: RUF006

    loop.create_task(main())
    loop.run_until_idle()
    gc.collect()
    futures.pop().set_result(None)
    loop.run_until_idle()
    assert seen == ["done"]


def test_system_exit_fails_the_flow_alone() -> None:
    """`sys.exit()` in a flow ends its task, not the worker."""
    loop = new_loop()

    async def main() -> None:
        raise SystemExit(3)

    task = loop.create_task(main())
    loop.run_until_idle()
    assert isinstance(task.exception(), SystemExit)


def test_keyboard_interrupt_is_not_the_flows() -> None:
    """A Ctrl-C that lands in flow code leaves the loop, and the outer state is restored."""
    loop = new_loop()

    async def main() -> None:
        raise KeyboardInterrupt

    task = loop.create_task(main())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_idle()
    assert asyncio._get_running_loop() is None
    assert isinstance(task.exception(), KeyboardInterrupt)


def test_wait_and_as_completed_keep_their_order() -> None:
    """Bare coroutines start in argument order; results come in order of completion."""

    async def main() -> tuple[list[int], list[int], list[int], list[int]]:
        started: list[int] = []

        async def item(n: int) -> int:
            started.append(n)
            for _ in range(30 - 5 * n):
                await asyncio.sleep(0)
            return n

        completed = [f.result() async for f in as_completed(item(n) for n in range(5))]
        first = list(started)
        started.clear()
        done, pending = await wait([item(n) for n in range(5)], return_when=asyncio.FIRST_COMPLETED)
        rest, _ = await wait(pending)
        return first, completed, [f.result() for f in done], [f.result() for f in rest]

    expected = ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [4], [0, 1, 2, 3])
    assert run(new_loop(), main()) == expected


def test_wait_needs_something_to_wait_for() -> None:
    """Like asyncio's own, an empty `wait` is an error."""
    with pytest.raises(ValueError, match="at least one"):
        run(new_loop(), wait([]))


GENERATOR = """
import asyncio
from iworkflow.core.flow.loop import FlowLoop

async def cleaned(n):
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await asyncio.sleep(0)
        print("never")

async def numbers():
    try:
        await cleaned(1)
        yield 1
    finally:
        await cleaned(2)

async def main():
    async for _ in numbers():
        pass

loop = FlowLoop(None)
loop.create_task(main())
loop.run_until_idle()
loop.abandon()
"""


def test_abandon_is_silent_about_clean_up_inside_a_generator() -> None:
    """What a generator awaits is closed from within, with no complaint on the screen."""
    command = [sys.executable, "-c", GENERATOR]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
