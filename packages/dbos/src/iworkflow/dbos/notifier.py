"""Our own notifications: what happened, told to the other processes.

Postgres takes one lock over the whole cluster when a notifying transaction commits, so whatever
happens within a few milliseconds goes out in one statement. A lost notification only delays: the
nets of `wakeups` look on their own.
"""

from __future__ import annotations

import asyncio
import time

from iworkflow.dbos.database import Database

CHANNEL = "iwf_wake"
_COALESCE = 0.01
_LONGEST = 7900
"""Postgres takes payloads below 8000 bytes; a longer one is left to the nets."""

_SEND = f"SELECT pg_notify('{CHANNEL}', payload) FROM unnest($1::text[]) AS payload"  # noqa: S608


def queued(app: str) -> str:
    """Name the event that runs of an app wait in its queue."""
    return f"queued:{app}"


def ended(workflow_id: str) -> str:
    """Name the event that a run came to its end, whatever end."""
    return f"ended:{workflow_id}"


class Notifier:
    """Sends events to all processes, this one included."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: dict[str, None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._last = 0.0

    def send(self, event: str) -> None:
        """Send an event soon; one that is waiting to be sent already goes out once."""
        if len(event.encode()) > _LONGEST:
            return
        self._pending[event] = None
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def close(self) -> None:
        """Send what waits, for a moment at most."""
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=1.0)
            self._sending.cancel()

    async def _send(self) -> None:
        while self._pending:
            await asyncio.sleep(max(0.0, self._last + _COALESCE - time.monotonic()))
            events, self._pending = list(self._pending), {}
            self._last = time.monotonic()
            await self._database.execute(_SEND, events)
