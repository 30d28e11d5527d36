"""Waiting for a condition, the lab's only way to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable


async def until(
    condition: Callable[[], object | Awaitable[object]],
    what: str,
    *,
    seconds: float = 30.0,
    every: float = 0.02,
) -> None:
    """Wait until the condition gives something true; it may be a coroutine function.

    Raises:
        TimeoutError: it did not within `seconds`; the message says `what` did not happen.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        value = condition()
        if isawaitable(value):
            value = await value
        if value:
            return
        if loop.time() >= deadline:
            raise TimeoutError(f"did not happen within {seconds:g} s: {what}")
        await asyncio.sleep(every)
