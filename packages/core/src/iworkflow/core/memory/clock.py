"""The clocks of the memory engine: virtual time for tests, wall time for everything else.

Virtual time stands still while anything can still happen at the present moment. It jumps to
the next timer only when

- somebody waits for time to pass (`waiting`: a result is awaited, the testing kit goes on),
- no step runs (`busy`), and
- nothing is left to run on the event loop.

So a test that starts a flow and then sends it a message finds the flow at the same moment each
time. Timers fire one by one in the order of their time, then of their making.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

VIRTUAL_START = 1_735_689_600.0
"""Where virtual time begins unless told otherwise: 2025-01-01, midnight, UTC."""

_READY = "_ready"
"""Where the loops of asyncio keep what is to run next."""

_TURNS_WITHOUT_READY = 50
"""Turns of a loop that hides its queue (uvloop) after which it counts as idle."""


class Timer(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """Never call it; after the call, or a second time: nothing."""
        ...


class StoreClock(Protocol):
    """The time of a store. A superset of the `Clock` of the steps."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of this clock."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back on the running loop at `when`, never before."""
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """Hold while somebody waits for time to pass."""
        ...

    def busy(self) -> AbstractContextManager[None]:
        """Hold while a step runs."""
        ...


@dataclass(order=True, slots=True)
class _VirtualTimer:
    when: float
    number: int
    callback: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """Time that jumps from timer to timer.

    Args:
        start: the first moment, in seconds since the epoch.
    """

    def __init__(self, start: float = VIRTUAL_START) -> None:
        self._now = start
        self._timers: list[_VirtualTimer] = []
        self._numbers = itertools.count()
        self._waiting = 0
        self._busy = 0
        self._turns = 0
        self._scheduled_on: asyncio.AbstractEventLoop | None = None
        self.limit: float | None = None
        """No timer after this moment fires."""
        self.advance: Callable[[], bool] = self.fire_next
        """What is done when nothing is left to run; false says that nothing could be done."""
        self.stuck: Callable[[], None] = _nothing
        """Told when time should pass and nothing is left that could happen."""

    def now(self) -> float:
        """Return the virtual time."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait until virtual time has moved by `seconds`."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        timer = self.call_at(self._now + seconds, lambda: _resolve(done))
        try:
            await done
        finally:
            timer.cancel()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back once virtual time has come to `when`."""
        timer = _VirtualTimer(when, next(self._numbers), callback)
        heapq.heappush(self._timers, timer)
        self.kick()
        return timer

    @property
    def next_at(self) -> float | None:
        """When the next timer within the limit is due."""
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        if not self._timers or (self.limit is not None and self._timers[0].when > self.limit):
            return None
        return self._timers[0].when

    def move(self, to: float) -> None:
        """Move to a moment; what was due before it has to be over."""
        self._now = max(self._now, to)

    def fire_next(self) -> bool:
        """Move to the next timer within the limit and call it back; false if there is none."""
        if self.next_at is None:
            return False
        timer = heapq.heappop(self._timers)
        callback, timer.callback = timer.callback, None
        self._now = max(self._now, timer.when)
        if callback is not None:
            callback()
        return True

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Hold while somebody waits for time to pass."""
        self._waiting += 1
        self.kick()
        try:
            yield
        finally:
            self._waiting -= 1

    @contextmanager
    def busy(self) -> Generator[None]:
        """Hold while a step runs: time stands still."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self.kick()

    @contextmanager
    def resting(self) -> Generator[None]:
        """Hold while a step that is `busy` waits for this clock."""
        self._busy -= 1
        self.kick()
        try:
            yield
        finally:
            self._busy += 1

    def kick(self) -> None:
        """Look again whether time can move."""
        if not self._waiting or self._busy:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._scheduled_on is not loop:
            self._turns = 0
            self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._scheduled_on = loop
        loop.call_soon(self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._scheduled_on = None
        if not self._waiting or self._busy:
            return
        if not self._is_idle(loop):
            self._schedule(loop)
        elif self.advance():
            self._turns = 0
            self._schedule(loop)
        else:
            self.stuck()

    def _is_idle(self, loop: asyncio.AbstractEventLoop) -> bool:
        ready = getattr(loop, _READY, None)
        if ready is not None:
            return not ready
        self._turns += 1
        return self._turns > _TURNS_WITHOUT_READY


class RealClock:
    """The wall clock."""

    def now(self) -> float:
        """Return the time of day in seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back on the running loop at `when`, never before."""
        return _RealTimer(when, callback)

    def waiting(self) -> AbstractContextManager[None]:
        """Wall time passes anyway."""
        return nullcontext()

    def busy(self) -> AbstractContextManager[None]:
        """Wall time passes anyway."""
        return nullcontext()


class _RealTimer:
    """A timer of the loop that is set again when the loop's clock runs ahead of the day's."""

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self._when = when
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._handle = self._set()

    def _set(self) -> asyncio.TimerHandle:
        return self._loop.call_later(max(0.0, self._when - time.time()), self._due)

    def _due(self) -> None:
        if time.time() < self._when:
            self._handle = self._set()
        else:
            self._callback()

    def cancel(self) -> None:
        self._handle.cancel()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _nothing() -> None:
    return None


class Bell:
    """Wakes all that wait, in the order in which they came."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: dict[asyncio.Future[None], None] = {}

    def ring(self) -> None:
        """Wake all that wait now."""
        for waiter in list(self._waiters):
            _resolve(waiter)

    async def wait(self, clock: StoreClock, until: float | None = None) -> None:
        """Wait for the next ring, or until the clock says `until`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        timer = None if until is None else clock.call_at(until, lambda: _resolve(waiter))
        try:
            await waiter
        finally:
            del self._waiters[waiter]
            if timer is not None:
                timer.cancel()
