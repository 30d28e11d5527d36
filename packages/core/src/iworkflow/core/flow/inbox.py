"""Messages that flow code waits for, by topic.

A `recv` that is alone in the air is one operation of the engine, with its timeout. Where other
operations are in the air, a `recv` may lose against them and must then have consumed nothing;
and several may wait for one topic. There, one reader a topic takes messages for whoever waits,
timeouts are sleeps, and a reader that nobody waits for keeps its message. A timeout counts once
its time is up and the reader has looked and found nothing that was sent before: however slow the
engine is, a message that was there is not missed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from iworkflow.core.flow.entry import Answer, Entry
from iworkflow.core.port import Outcome

READER_GRACE = 0.05
"""Seconds that a shared `recv` waits at least for its reader, where the engine cannot be asked."""


@dataclass(slots=True, eq=False)
class Receipt:
    """One `recv` of the flow: `answer` gets `{"message": value}`, or None for no message."""

    topic: str
    timeout: float | None
    answer: Answer[Outcome]
    timer: Entry | None = None
    alone: Entry | None = None
    dropped: bool = False


@dataclass(slots=True)
class Topic:
    """Who waits for a topic, and the reader that takes its next message."""

    name: str
    waiting: deque[Receipt] = field(default_factory=deque[Receipt])
    reader: Entry | None = None
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def move(self) -> None:
        """Wake whoever waits for the reader to be started or to be done with."""
        self.moved.set()
        self.moved = asyncio.Event()


class Inbox:
    """The topics of one run."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}

    def topic(self, name: str) -> Topic:
        """The topic of that name, made when it is first asked for."""
        return self._topics.setdefault(name, Topic(name))

    def hungry(self) -> list[Topic]:
        """The topics that somebody waits for and that have no reader."""
        return [t for t in self._topics.values() if t.waiting and t.reader is None]
