"""`wait` and `as_completed` in a stable order.

asyncio's own go through sets: they start bare coroutines, and hand out what is done, in the
order of hashes. These keep the order of their argument and of the completions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def wait(
    awaitables: Iterable[Awaitable[T]],
    *,
    timeout: float | None = None,
    return_when: str = asyncio.ALL_COMPLETED,
) -> tuple[list[asyncio.Future[T]], list[asyncio.Future[T]]]:
    """Wait like `asyncio.wait`, and return what is done and what is pending in argument order.

    Bare coroutines are allowed and start in argument order. A cancel leaves them running.
    """
    futures = [asyncio.ensure_future(item) for item in awaitables]
    if not futures:
        raise ValueError("wait() needs at least one awaitable")
    done, _ = await asyncio.wait(futures, timeout=timeout, return_when=return_when)
    return [f for f in futures if f in done], [f for f in futures if f not in done]


async def as_completed(
    awaitables: Iterable[Awaitable[T]], *, timeout: float | None = None
) -> AsyncIterator[asyncio.Future[T]]:
    """Yield each as it is done, in the order in which they were done.

    Raises:
        TimeoutError: not all were done within `timeout` seconds. They go on.
    """
    futures = [asyncio.ensure_future(item) for item in awaitables]
    queue: asyncio.Queue[asyncio.Future[T]] = asyncio.Queue()
    for future in futures:
        future.add_done_callback(queue.put_nowait)
    async with asyncio.timeout(timeout):
        for _ in futures:
            yield await queue.get()
