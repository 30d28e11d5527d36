"""How a step learns that its attempt ends early."""

from __future__ import annotations

import asyncio
import threading


class StepSignal:
    """Tells a step that its attempt ends early, and why. Safe to use from any thread.

    It is set once: the first reason stays.
    """

    __slots__ = ("_lock", "_reason", "_waiters")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    @property
    def cancelled(self) -> bool:
        """Whether the attempt was told to end."""
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """Why: `timeout`, `heartbeat-timeout` or what the canceller said (`cancelled`)."""
        return self._reason

    async def wait(self) -> None:
        """Return once the attempt is told to end; at once if it was. Works on any event loop."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        with self._lock:
            if self._reason is not None:
                return
            self._waiters.append((loop, waiter))
        await waiter

    def raise_if_cancelled(self) -> None:
        """Raise `asyncio.CancelledError` if the attempt was told to end.

        In a sync step this is the way out: `except Exception` does not catch it.
        """
        if self._reason is not None:
            raise asyncio.CancelledError(self._reason)

    def cancel(self, reason: str) -> None:
        """Tell the step. For engines; a second call changes nothing."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            waiters, self._waiters = self._waiters, []
        for loop, waiter in waiters:
            _wake(loop, waiter)


def _wake(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> None:
    def resolve() -> None:
        if not waiter.done():
            waiter.set_result(None)

    try:
        loop.call_soon_threadsafe(resolve)
    except RuntimeError:  # that loop is closed: nobody waits there any more
        pass
