"""The clock by which a step waits between its attempts."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """An engine's time. The attempts themselves are always timed by the wall clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once that much of this clock's time has passed."""
        ...


class WallClock:
    """The clock on the wall."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Sleep for that long."""
        await asyncio.sleep(seconds)
