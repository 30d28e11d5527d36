"""Messages to a run: how they cross the wire, and the inbox inside of the workflow.

A message is a Temporal signal named as its topic, with the value, the id and the time of sending
as arguments. Only the first is needed, so any tool that sends signals can send it. The time
counts where a message and the end of a wait for it are found by one workflow task, as after a
time without a worker: Temporal does not tell a workflow which of them came first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import Message, Outcome

_RESERVED = "__"
_PREFIX = "iwf.topic:"


def signal_name(topic: str) -> str:
    """Name the signal of a topic; Temporal keeps names that begin with `__` for itself."""
    return _PREFIX + topic if topic.startswith((_RESERVED, _PREFIX)) else topic


def signal_args(message: Message, at: float) -> list[JsonValue]:
    """Return the arguments of the signal of a message that is sent at this time."""
    return [message.value, message.id, at]


def topic_of(name: str) -> str:
    """Return the topic of a signal's name."""
    return name.removeprefix(_PREFIX)


def read_signal(name: str, args: Sequence[Any]) -> tuple[Message, float | None]:
    """Read a signal and the time of its sending; one without arguments has the value None."""
    value, id, at = [*args[:3], None, None, None][:3]
    message = Message(topic_of(name), value, id if isinstance(id, str) else None)
    return message, at if isinstance(at, float) else None


@dataclass(frozen=True, slots=True)
class Taken:
    """What a wait for a message came to."""

    outcome: Outcome
    sent: float | None = None
    """When the message was sent, if that is known."""


@dataclass(frozen=True, slots=True)
class _Wait:
    answer: asyncio.Future[Taken]
    until: float | None

    def too_late(self, taken: Taken, now: float) -> bool:
        """Whether the wait was over when the message was sent."""
        if self.until is None or taken.sent is None or now < self.until:
            return False
        return taken.sent > self.until


class Inbox:
    """The unread messages of one run. Temporal replays what it does from the history."""

    def __init__(self) -> None:
        self._unread: dict[str, deque[Taken]] = {}
        self._waiting: dict[str, deque[_Wait]] = {}
        self._seen: set[str] = set()

    def put(self, message: Message, sent: float | None = None) -> None:
        """Take a message in; one whose id was seen is dropped."""
        if message.id is not None:
            if message.id in self._seen:
                return
            self._seen.add(message.id)
        taken = Taken(Outcome({"message": message.value}), sent)
        self._unread.setdefault(message.topic, deque()).append(taken)
        self._hand_out(message.topic)

    async def take(self, topic: str, timeout: float | None) -> Taken:
        """Take the oldest message, or nothing once the time is up. A cancel gives it back."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Taken] = loop.create_future()
        until = None if timeout is None else loop.time() + timeout
        self._waiting.setdefault(topic, deque()).append(_Wait(answer, until))
        self._hand_out(topic)
        timer = None
        if timeout is not None and not answer.done():
            timer = loop.call_later(timeout, _expire, answer)
        try:
            return await answer
        except asyncio.CancelledError:
            self._give_back(topic, answer)
            raise
        finally:
            if timer is not None and not timer.cancelled():
                timer.cancel()

    def _hand_out(self, topic: str) -> None:
        unread, waiting = self._unread.get(topic), self._waiting.get(topic)
        while unread and waiting:
            wait = waiting.popleft()
            if wait.too_late(unread[0], asyncio.get_running_loop().time()):
                _expire(wait.answer)
            elif not wait.answer.done():
                wait.answer.set_result(unread.popleft())

    def _give_back(self, topic: str, answer: asyncio.Future[Taken]) -> None:
        if not answer.done() or answer.cancelled():
            answer.cancel()
            return
        taken = answer.result()
        if taken.outcome.value is not None:
            self._unread.setdefault(topic, deque()).appendleft(taken)
            self._hand_out(topic)


def _expire(answer: asyncio.Future[Taken]) -> None:
    if not answer.done():
        answer.set_result(Taken(Outcome()))
