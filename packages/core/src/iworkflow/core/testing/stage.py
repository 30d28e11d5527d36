"""Where a test holds operations, chooses who goes on first, and lets the workers die."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from iworkflow.core.memory.clock import VirtualClock
from iworkflow.core.memory.host import Mark, Moment
from iworkflow.core.memory.store import Run
from iworkflow.core.port import Operation


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the life of a test at which a crash makes a difference.

    `run` is the run's id; `place` is the operation's place in its history, 0 for the run's end.
    """

    number: int
    run: str
    place: int
    kind: str
    name: str
    moment: Moment

    def __str__(self) -> str:
        what = f"{self.kind} {self.name!r}" if self.name else self.kind
        return f"{_MOMENTS[self.moment]} {what} of {self.run!r} (operation {self.place})"


_MOMENTS = {
    Moment.BEFORE: "before",
    Moment.EFFECT: "after the effect of",
    Moment.RECORD: "after the record of",
}


class Schedule(Protocol):
    """Decides what happens next where more than one thing can; for property tests.

    Its methods are called in a fixed order for a fixed program: a schedule that decides from a
    seed makes a test that can be repeated.
    """

    def choose(self, pending: Sequence[Point], timer: bool) -> Sequence[int]:
        """Choose who goes on.

        Called when nothing else is left to run.

        Args:
            pending: the operations that are held, in the order in which they came.
            timer: whether a timer waits, which could fire instead.

        Returns:
            The indices of those that go on, in this order. None of them: the timer fires.
        """
        ...

    def crash(self, point: Point) -> bool:
        """Whether all workers die here."""
        ...

    def hold(self, point: Point) -> bool:
        """Whether the operation is held here until it is chosen."""
        ...


@dataclass(slots=True)
class RandomSchedule:
    """A schedule drawn from a seed.

    Args:
        seed: the same seed decides the same.
        crash_rate: how likely a crash is at each point.
        max_crashes: how many crashes there are at most.
        timer_rate: how likely a timer fires before operations that are held.
        hold_rate: how likely an operation is held before its effect, and after its record; after
            its effect it is always held.
    """

    seed: int
    crash_rate: float = 0.0
    max_crashes: int = 3
    timer_rate: float = 0.1
    hold_rate: float = 0.2
    crashes: int = field(default=0, init=False)
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - a test's dice

    def choose(self, pending: Sequence[Point], timer: bool) -> Sequence[int]:
        """Choose some of them, in any order, or now and then the timer."""
        if timer and self._random.random() < self.timer_rate:
            return ()
        count = 1 if self._random.random() < 0.7 else self._random.randint(1, len(pending))
        return self._random.sample(range(len(pending)), count)

    def crash(self, point: Point) -> bool:
        """Crash by chance, as long as crashes are left."""
        if self.crashes >= self.max_crashes or self._random.random() >= self.crash_rate:
            return False
        self.crashes += 1
        return True

    def hold(self, point: Point) -> bool:
        """Hold every completion, and now and then what comes before and after it."""
        return point.moment is Moment.EFFECT or self._random.random() < self.hold_rate


@dataclass(slots=True)
class _Held:
    point: Point
    release: asyncio.Future[None]


class TestStage:
    """The stage of the kit's workers: numbers the points, crashes there, holds operations.

    Args:
        clock: the clock that says when nothing is left to run.
        schedule: who chooses; None holds nothing.
        crash_at: the numbers of the points (from 1) at which all workers die.
        crash_after: after how many records all workers die.
    """

    __test__ = False

    def __init__(
        self,
        clock: VirtualClock,
        *,
        schedule: Schedule | None,
        crash_at: frozenset[int],
        crash_after: int | None,
    ) -> None:
        self._clock = clock
        self._schedule = schedule
        self._crash_at = crash_at
        self._crash_after = crash_after
        self.crash: Callable[[], None] = lambda: None
        """Lets the workers die; nothing is recorded once it returns."""
        self._held: list[_Held] = []
        self.points: list[Point] = []
        self.records = 0
        if schedule is not None:
            clock.advance = self._advance

    async def reached(
        self, run: Run, place: int, operation: Operation | Mark, moment: Moment
    ) -> None:
        """Number the point, die here if it is due, wait to be chosen."""
        point = Point(len(self.points) + 1, run.id, place, operation.kind, operation.name, moment)
        self.points.append(point)
        self.records += moment is Moment.RECORD
        if self._dies(point):
            self.crash()
        elif self._schedule is not None and self._schedule.hold(point):
            await self._hold(point)

    def _dies(self, point: Point) -> bool:
        if point.number in self._crash_at:
            return True
        if point.moment is Moment.RECORD and self.records == self._crash_after:
            return True
        return self._schedule is not None and self._schedule.crash(point)

    async def _hold(self, point: Point) -> None:
        held = _Held(point, asyncio.get_running_loop().create_future())
        self._held.append(held)
        self._clock.kick()
        try:
            await held.release
        finally:
            if held in self._held:
                self._held.remove(held)

    def _advance(self) -> bool:
        assert self._schedule is not None
        pending = [held for held in self._held if not held.release.done()]
        if not pending:
            return self._clock.fire_next()
        timer = self._clock.next_at is not None
        chosen = self._schedule.choose([held.point for held in pending], timer)
        if not chosen and not timer:
            chosen = (0,)
        for index in chosen:
            pending[index].release.set_result(None)
        return True if chosen else self._clock.fire_next()
