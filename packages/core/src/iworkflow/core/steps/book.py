"""What of a step's attempts outlives its worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD, dumps
from iworkflow.core.errors import ErrorData
from iworkflow.core.jsonvalue import JsonValue

_log = logging.getLogger("iworkflow.steps")

BEAT_INTERVAL = 0.5
"""Seconds between two writes of heartbeats."""

_MESSAGE_KEPT = 200

FLUSH_TIME = 5.0
"""For how many seconds a cancelled attempt waits for a write of its heartbeats."""


@dataclass(frozen=True, slots=True)
class AttemptState:
    """How far a step is. Times are seconds since the epoch, by the engine's clock."""

    made: int
    """How many attempts failed."""
    first_at: float
    """When the step was first asked for; `total_timeout` counts from here."""
    next_at: float | None = None
    """When the next attempt is due."""
    heartbeat: JsonValue = None
    """What was reported last."""
    error: ErrorData | None = None
    """What the last attempt failed with."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the wire form; members at their default are left out.

        Report and error may each be as large as a payload. Where both are too much for one, the
        report is whole, and of the error there is its type and how its message begins.
        """
        data = self._to_json()
        if self.error is None or len(dumps(data)) <= DEFAULT_MAX_PAYLOAD:
            return data
        error = replace(self.error, message=_beginning(self.error), details=None, cause=None)
        return replace(self, error=error)._to_json()

    def _to_json(self) -> dict[str, JsonValue]:
        data: dict[str, JsonValue] = {"made": self.made, "first_at": self.first_at}
        if self.next_at is not None:
            data["next_at"] = self.next_at
        if self.heartbeat is not None:
            data["heartbeat"] = self.heartbeat
        if self.error is not None:
            data["error"] = self.error.to_json()
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AttemptState:
        """Read the wire form; members that are missing take their default."""
        error = data.get("error")
        return cls(
            made=int(data["made"]),
            first_at=float(data["first_at"]),
            next_at=cast("float | None", data.get("next_at")),
            heartbeat=cast("JsonValue", data.get("heartbeat")),
            error=None if error is None else ErrorData.from_json(error),
        )


def _beginning(error: ErrorData) -> str:
    text = error.message
    return text if len(text) <= _MESSAGE_KEPT else text[:_MESSAGE_KEPT] + "..."


class AttemptBook(Protocol):
    """Where an engine keeps the state of one step. Only one call at a time is made."""

    async def load(self) -> AttemptState | None:
        """Return what was saved last; None if nothing was."""
        ...

    async def save(self, state: AttemptState) -> None:
        """Save the state; durable once it returns. Called when an attempt failed or beat."""
        ...


class BeatWriter:
    """Writes the heartbeats of one attempt while it runs: the first at once, then coalesced.

    `beat` may be called from any thread. A write that fails is logged and tried again.
    """

    def __init__(self, book: AttemptBook, state: AttemptState) -> None:
        self._book = book
        self._state = state
        self._written = state.heartbeat
        self._loop = asyncio.get_running_loop()
        self._due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._write: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def state(self) -> AttemptState:
        """The state with what was reported last."""
        return self._state

    def beat(self, latest: JsonValue) -> None:
        """Take note of a report; it is written soon."""
        self._state = replace(self._state, heartbeat=latest)
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop is closed: this is what is left of a sync step
            pass

    async def stop(self, *, flush: bool) -> None:
        """End the writing, after the write that is under way; `flush` writes what is missing."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
        if self._write is not None:
            await asyncio.wait({self._write}, timeout=FLUSH_TIME if flush else None)
        if flush and self._dirty:
            self._write = self._loop.create_task(self._save())
            await asyncio.wait({self._write}, timeout=FLUSH_TIME)

    @property
    def _dirty(self) -> bool:
        # Each report is an object of its own: no need to compare large values.
        return self._written is not self._state.heartbeat

    def _wake(self) -> None:
        self._due.set()
        if self._task is None and self._dirty and not self._stopped:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            if self._dirty:
                self._write = self._loop.create_task(self._save())
                await asyncio.wait({self._write})
            await asyncio.sleep(BEAT_INTERVAL)

    async def _save(self) -> None:
        state = self._state
        try:
            await self._book.save(state)
        except Exception:
            self._due.set()
            _log.warning("a heartbeat could not be saved; it is tried again", exc_info=True)
        else:
            self._written = state.heartbeat
