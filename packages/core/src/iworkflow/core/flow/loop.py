"""A deterministic event loop for flows.

The loop does no I/O and owns no thread: it runs what is ready, first in, first out, and gives
control back. Three hazards of asyncio are dealt with here:

- asyncio keeps tasks in sets, and objects hash by address: tasks and futures of this loop hash
  by a serial number, so that such sets iterate alike on every replay;
- a task that only a weak set knows is collected at any moment: the loop holds every task;
- what garbage collection closes, it closes in the middle of another run: `abandon` closes every
  coroutine and asynchronous generator of the run while this loop is still the running one, and
  no collection starts while flow code runs, so that only a dropped reference closes a generator.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import re
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from contextvars import Context
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any, NoReturn, Protocol, TypeVar, TypeVarTuple, cast
from weakref import WeakValueDictionary

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MAX_CLOSES = 10
"""How often a coroutine that awaits while it is being closed is closed again."""

_MAX_ROUNDS = 100
"""How often tasks that were created while others were closed are closed in turn."""

_MACHINERY = re.compile(r"(asyncio|iworkflow\.core)(\.|$)")

log = logging.getLogger("iworkflow.flow")


class Timers(Protocol):
    """Where the loop's timers become durable."""

    def timer_set(self, handle: asyncio.TimerHandle, delay: float) -> None:
        """Hand the handle to `FlowLoop.run_soon` once `delay` seconds have passed."""
        ...

    def timer_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Forget the handle."""
        ...


class FlowFuture(asyncio.Future[T]):
    """A future that hashes by a serial number of its loop."""

    def __init__(self, *, loop: FlowLoop) -> None:
        self._serial = loop.next_serial()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._serial


class FlowTask(asyncio.Task[T]):
    """A task that hashes by a serial number of its loop."""

    def __init__(self, coro: Any, *, loop: FlowLoop, name: str | None, **options: Any) -> None:
        self._serial = loop.next_serial()
        super().__init__(coro, loop=loop, name=name or f"flow-task-{self._serial}", **options)

    def __hash__(self) -> int:
        return self._serial


class FlowLoop(asyncio.AbstractEventLoop):
    """The event loop of one dispatch of one run.

    `time()` is virtual: it starts at `start` and moves only through `advance`. Timers go to
    `timers`. I/O raises `RuntimeError` and says to move it into a step.
    """

    def __init__(self, timers: Timers, *, start: float = 0.0) -> None:
        self._timers = timers
        self._time = start
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: dict[int, FlowTask[Any]] = {}
        self._generators: WeakValueDictionary[int, AsyncGenerator[Any, Any]] = WeakValueDictionary()
        self._lost: list[AsyncGenerator[Any, Any]] = []
        self._last_serial = 0
        self._running = False
        self._abandoned = False
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None

    # What the driver calls.

    @property
    def abandoned(self) -> bool:
        """Whether the dispatch is over: what still runs is only being closed."""
        return self._abandoned

    def next_serial(self) -> int:
        """Draw the next serial number of this run."""
        self._last_serial += 1
        return self._last_serial

    def advance(self, to: float) -> None:
        """Move the clock forward, never back."""
        self._time = max(self._time, to)

    def run_soon(self, handle: asyncio.Handle) -> None:
        """Queue a handle, such as that of a timer whose time has come."""
        self._ready.append(handle)

    def run_until_idle(self) -> None:
        """Run everything that is ready, and what becomes ready by it.

        Raises:
            KeyboardInterrupt: somebody pressed Ctrl-C; it is not the flow's to handle.
        """
        with self._entered():
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    _run(handle)

    def abandon(self) -> None:
        """End the dispatch: run nothing any more and close every unfinished coroutine.

        Clean-up code of the flow (`finally`, `async with`) runs here as far as it needs no
        await. A second call does nothing.
        """
        if self._abandoned:
            return
        self._abandoned = True
        with self._entered():
            for _ in range(_MAX_ROUNDS):
                self._close_all()
                if not (self._tasks or self._lost or self._generators):
                    break
        self._ready.clear()

    def places(self) -> list[str]:
        """Tell where the unfinished tasks wait, as `name at file:line`."""
        return [_place(task) for task in self._tasks.values() if not task.done()]

    # What asyncio calls.

    def time(self) -> float:
        """Return the virtual time in seconds since the epoch."""
        return self._time

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Queue the callback."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run the callback after `delay` seconds; the wait is durable."""
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run the callback once the virtual time is `when`; the wait is durable."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if when <= self._time:
            self._ready.append(handle)
        elif not self._abandoned:
            self._timers.timer_set(handle, when - self._time)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if not self._abandoned:
            self._timers.timer_cancelled(handle)

    def create_future(self) -> FlowFuture[Any]:
        """Create a future of this loop."""
        return FlowFuture(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **_: Any
    ) -> FlowTask[Any]:
        """Create a task of this loop, which holds it until it is done."""
        task: FlowTask[Any] = FlowTask(coro, loop=self, name=name, context=context)
        self._tasks[hash(task)] = task
        task.add_done_callback(self._forget)
        return task

    def get_task_factory(self) -> None:
        """Return None: tasks are always this loop's own."""

    def get_debug(self) -> bool:
        """Return False."""
        return False

    def set_debug(self, enabled: bool) -> None:
        """Do nothing: there is no debug mode."""

    def is_running(self) -> bool:
        """Whether flow code is being run."""
        return self._running

    def is_closed(self) -> bool:
        """Whether the dispatch is over."""
        return self._abandoned

    def get_exception_handler(self) -> Any:
        """Return the handler that the flow has set."""
        return self._handler

    def set_exception_handler(self, handler: Any) -> None:
        """Set what is called with errors that nobody awaits."""
        self._handler = handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Log the error."""
        log.error(
            "in a flow: %s", context.get("message"), exc_info=context.get("exception") or None
        )

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Report an error that nobody awaits, unless the dispatch is over."""
        if self._abandoned:
            return
        if self._handler is not None:
            self._handler(self, context)
        else:
            self.default_exception_handler(context)

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: `abandon` closes them."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there is none."""

    # Inside.

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._tasks.pop(hash(task), None)

    @contextmanager
    def _entered(self) -> Generator[None]:
        """Make this the running loop of the thread, with its own generator hooks."""
        outer = asyncio._get_running_loop()
        outer_task = _swap_task(outer, None)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generator_started, finalizer=self._generator_lost)
        asyncio._set_running_loop(self)
        collecting = gc.isenabled()
        gc.disable()
        self._running = True
        try:
            yield
        finally:
            self._running = False
            if collecting:
                gc.enable()
            asyncio._set_running_loop(outer)
            sys.set_asyncgen_hooks(*hooks)
            _swap_task(outer, outer_task)

    def _generator_started(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[id(generator)] = generator

    def _generator_lost(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Close a dropped generator: now if the flow dropped it, else with the dispatch."""
        if self._running and not self._abandoned:
            self.create_task(generator.aclose())
        else:
            self._lost.append(generator)

    def _close_all(self) -> None:
        tasks, self._tasks = self._tasks, {}
        generators = [*self._lost, *self._generators.values()]
        self._lost.clear()
        self._generators.clear()
        for generator in generators:
            close(_awaited_in(generator))
        for task in tasks.values():
            close(task.get_coro())
        for generator in generators:
            _close_generator(generator)


def _place(task: asyncio.Task[Any]) -> str:
    frames = [frame for frame in map(_frame, _chain(task.get_coro())) if frame is not None]
    own = [f for f in frames if not _MACHINERY.match(str(f.f_globals.get("__name__")))]
    if not own:
        return task.get_name()
    return f"{task.get_name()} at {own[-1].f_code.co_filename}:{own[-1].f_lineno}"


def _chain(coro: Any) -> list[Any]:
    """The coroutine, the one that it awaits, and so on inwards."""
    chain: list[Any] = []
    while isinstance(coro, CoroutineType | GeneratorType):
        chain.append(cast("Any", coro))
        coro = getattr(chain[-1], "cr_await", None) or getattr(chain[-1], "gi_yieldfrom", None)
    return chain


def _awaited_in(generator: AsyncGenerator[Any, Any]) -> Any:
    return cast("AsyncGeneratorType[Any, Any]", generator).ag_await


def _frame(coro: Any) -> FrameType | None:
    return cast("FrameType | None", getattr(coro, "cr_frame", getattr(coro, "gi_frame", None)))


def _run(handle: asyncio.Handle) -> None:
    try:
        handle._run()
    except SystemExit:
        # asyncio has put it into the task already, which fails by it like by any other error.
        pass


def close(coro: Any) -> None:
    """Close a coroutine from within, also one that awaits while it is being closed.

    Left to its garbage collection, an inner one would complain of what it awaits in its clean-up.
    One that swallows `GeneratorExit` for ever is held for ever instead, with an error in the log.
    """
    for inner in reversed(_chain(coro)):
        if not _closed(inner):
            _hold_for_ever(inner)
            log.error("%r cannot be closed: it swallows every exception", inner)


def _hold_for_ever(item: object) -> None:
    """Keep an object beyond the interpreter's own end: collecting it would run its code."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))


def _closed(coro: Any) -> bool:
    for _ in range(_MAX_CLOSES):
        try:
            coro.close()
        except RuntimeError as error:
            if "ignored GeneratorExit" not in str(error):
                return True
        except BaseException:  # the flow's clean-up failed, and its dispatch is over
            return True
        else:
            return True
    return False


def _close_generator(generator: AsyncGenerator[Any, Any]) -> None:
    close(_awaited_in(generator))
    closing = generator.aclose()
    try:
        closing.send(None)
    except (StopIteration, StopAsyncIteration):
        return
    except BaseException:  # as in `close`
        return
    if not _closed(closing):
        _hold_for_ever(generator)


def _swap_task(loop: asyncio.AbstractEventLoop | None, task: Any) -> Any:
    """Swap the current task of the outer loop: since 3.12 it is in the way of nested tasks."""
    swap = getattr(asyncio.tasks, "_swap_current_task", None)
    if swap is None or loop is None:
        return None
    return swap(loop, task)


def _refuse(name: str) -> Callable[..., NoReturn]:
    def refused(self: FlowLoop, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"loop.{name}() in a flow is not replay-stable; move it into a step")

    refused.__name__ = name
    return refused


def _refuse_the_rest() -> None:
    for name in dir(asyncio.AbstractEventLoop):
        if not name.startswith("_") and name not in vars(FlowLoop):
            setattr(FlowLoop, name, _refuse(name))


_refuse_the_rest()
