"""Messages to a run: how they cross the wire, and the inbox inside of the workflow.

A message is a Temporal signal named as its topic, with the value and, if it has one, the id as
arguments: any tool that sends signals can send it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, cast

from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import Message, Outcome

_RESERVED = "__"
_PREFIX = "iwf.topic:"


def signal_name(topic: str) -> str:
    """Name the signal of a topic; Temporal keeps names that begin with `__` for itself."""
    return _PREFIX + topic if topic.startswith((_RESERVED, _PREFIX)) else topic


def signal_args(message: Message) -> list[JsonValue]:
    """Return the arguments of the signal."""
    return [message.value] if message.id is None else [message.value, message.id]


def topic_of(name: str) -> str:
    """Return the topic of a signal's name."""
    return name.removeprefix(_PREFIX)


def read_signal(name: str, args: Sequence[Any]) -> Message:
    """Read a signal; one without arguments has the value None."""
    id = cast("object", args[1]) if len(args) > 1 else None
    return Message(topic_of(name), args[0] if args else None, id if isinstance(id, str) else None)


class Inbox:
    """The unread messages of one run. Temporal replays what it does from the history."""

    def __init__(self) -> None:
        self._unread: dict[str, deque[JsonValue]] = {}
        self._waiting: dict[str, deque[asyncio.Future[Outcome]]] = {}
        self._seen: set[str] = set()

    def put(self, message: Message) -> None:
        """Take a message in; one whose id was seen is dropped."""
        if message.id is not None:
            if message.id in self._seen:
                return
            self._seen.add(message.id)
        self._unread.setdefault(message.topic, deque()).append(message.value)
        self._hand_out(message.topic)

    async def take(self, topic: str, timeout: float | None) -> Outcome:
        """Take the oldest message, or nothing once the time is up. A cancel gives it back."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.setdefault(topic, deque()).append(answer)
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
            answer = waiting.popleft()
            if not answer.done():
                answer.set_result(Outcome({"message": unread.popleft()}))

    def _give_back(self, topic: str, answer: asyncio.Future[Outcome]) -> None:
        if not answer.done() or answer.cancelled():
            answer.cancel()
            return
        value = answer.result().value
        if isinstance(value, dict):
            self._unread.setdefault(topic, deque()).appendleft(value["message"])
            self._hand_out(topic)


def _expire(answer: asyncio.Future[Outcome]) -> None:
    if not answer.done():
        answer.set_result(Outcome())
