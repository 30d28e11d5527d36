"""SIGINT and SIGTERM: the first one asks, the second one ends the process at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_stop(ask: Callable[[], object]) -> Generator[None]:
    """Call `ask` in the running loop at the first signal; exit with 128 + n at the second."""
    loop = asyncio.get_running_loop()
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + number)
        asked = True
        loop.call_soon_threadsafe(ask)

    before = {one: signal.signal(one, handle) for one in _SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
