"""Operations between their issue and their delivery."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iworkflow.core.flow.loop import FlowFuture, T
from iworkflow.core.port import (
    AwaitRun,
    Completion,
    Operation,
    Receive,
    RunStep,
    Sleep,
)

if TYPE_CHECKING:
    from iworkflow.core.flow.inbox import Topic

_INTERRUPTIBLE = (RunStep, AwaitRun, Receive, Sleep)


@dataclass(slots=True, eq=False)
class Entry:
    """An operation that the flow issued.

    `deliver` hands its completion to the flow. `noticed` says whether the flow could notice the
    completion now: a reader whose topic nobody waits for is in the air, but not noticed.
    `recorded` is what the history holds; of a sleep, it may lie in the future. `limits` is set
    in a timer that ends a wait for a topic: it completes only after a look that found nothing;
    `ended` is its completion until then, and `due` when it ends where the engine orders.
    """

    operation: Operation
    deliver: Callable[[Completion], None]
    place: int = 0
    task: asyncio.Task[Completion] | None = None
    recorded: Completion | None = None
    completion: Completion | None = None
    limits: Topic | None = None
    due: float | None = None
    ended: Completion | None = None
    dropped: bool = False
    noticed: bool = True

    @property
    def interruptible(self) -> bool:
        """Whether a drop ends what runs. A short effect is let finish: it may be half done."""
        return isinstance(self.operation, _INTERRUPTIBLE)


class Answer(FlowFuture[T]):
    """What the flow awaits; cancelling it calls `dropped` at once."""

    dropped: Callable[[], None]

    def cancel(self, msg: object = None) -> bool:
        """Cancel the future, and drop what was asked for."""
        if not super().cancel(msg):
            return False
        self.dropped()
        return True


@dataclass(slots=True)
class Air:
    """The entries in the air, and those among them that are ready for delivery.

    What completed at one time is delivered in the order in which the engine told of it: a look at
    the run in between has then shown a beginning of what comes.
    """

    _entries: dict[int, Entry] = field(default_factory=dict[int, Entry])
    _ready: list[tuple[float, int, int]] = field(default_factory=list[tuple[float, int, int]])
    _offers: int = 0
    _unnoticed: int = 0

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    @property
    def noticed(self) -> int:
        """How many entries the flow could notice the completion of."""
        return len(self._entries) - self._unnoticed

    def add(self, entry: Entry) -> None:
        """Take in an entry that has its place."""
        self._entries[entry.place] = entry
        self._unnoticed += not entry.noticed
        self.offer(entry)

    def remove(self, entry: Entry) -> None:
        """Let go of an entry, delivered or dropped."""
        if self._entries.pop(entry.place, None) is not None:
            self._unnoticed -= not entry.noticed

    def notice(self, entry: Entry, noticed: bool) -> None:
        """Say whether the flow could now notice the entry's completion."""
        if entry.noticed != noticed:
            entry.noticed = noticed
            self._unnoticed += -1 if noticed else 1
            self.offer(entry)

    def offer(self, entry: Entry) -> None:
        """Make the entry ready, if it is completed and noticed."""
        if entry.completion is not None and entry.noticed:
            self._offers += 1
            heapq.heappush(self._ready, (entry.completion.at, self._offers, entry.place))

    def get(self, place: int) -> Entry | None:
        """The entry at the place, if it is in the air."""
        return self._entries.get(place)

    def first_ready(self) -> Entry | None:
        """The ready entry that completed first; it stays in the air."""
        while self._ready:
            entry = self._entries.get(self._ready[0][-1])
            if entry is not None and entry.noticed:
                return entry
            heapq.heappop(self._ready)
        return None
