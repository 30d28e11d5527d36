"""Keys of messages: the order of sending holds also within one millisecond.

DBOS orders messages by the millisecond, and so do we, then by their key. Keys that are ours sort
by the time of sending. A key that a user chose does not, so after it, or before it, the next
message to the same run waits until the millisecond is over.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from dataclasses import dataclass

_STEP = 0.0015
_KEPT = 1000


@dataclass(slots=True)
class _Last:
    key: str
    at: float


class Keys:
    """Gives out keys for the messages of one process."""

    def __init__(self) -> None:
        self._unique = os.urandom(4).hex()
        self._count = itertools.count()
        self._last: dict[str, _Last] = {}

    def fresh(self) -> str:
        """Return a key that sorts after all that were given out before."""
        return f"{time.time_ns():020d}-{next(self._count):06d}-{self._unique}"

    async def in_order(self, destination: str, key: str) -> None:
        """Return once a message with the key, sent now, sorts after the last one."""
        last = self._last.get(destination)
        if last is not None and key <= last.key:
            await asyncio.sleep(max(0.0, last.at + _STEP - time.monotonic()))

    def sent(self, destination: str, key: str) -> None:
        """Take note that the message was sent."""
        self._last.pop(destination, None)
        self._last[destination] = _Last(key, time.monotonic())
        while len(self._last) > _KEPT:
            del self._last[next(iter(self._last))]
