"""Wake-ups: whoever waits for a run's end or for a message hears of it at once.

One connection listens to two channels: ours, and DBOS's own, on which a trigger tells of each new
message, whoever sent it. Behind it stand the nets, which ask the database about everything that is
waited for in one statement each: they find what a lost notification left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from iworkflow.dbos.database import Database
from iworkflow.dbos.notifier import CHANNEL, Notifier, ended
from iworkflow.dbos.runs import FINISHED

logger = logging.getLogger("iworkflow.dbos")

DBOS_CHANNEL = "dbos_notifications_channel"
_OTHERS = "others-than:"
_RECONNECT = 0.5
_ALIVE = 5.0

_ENDED = """SELECT workflow_uuid FROM dbos.workflow_status
    WHERE workflow_uuid = ANY($1::text[]) AND status = ANY($2::text[])"""
_MESSAGES = """SELECT DISTINCT destination_uuid, topic FROM dbos.notifications
    WHERE destination_uuid = ANY($1::text[]) AND NOT consumed"""


def arrived(workflow_id: str, topic: str) -> str:
    """Name the event that a run has a message of a topic."""
    return f"arrived:{workflow_id}::{topic}"


class Wakeups:
    """What this process waits for. It belongs to one event loop.

    Args:
        database: where to ask and to listen.
        interval: seconds between two looks of the nets.
    """

    def __init__(self, database: Database, *, interval: float) -> None:
        self.notifier = Notifier(database)
        self._others = f"{_OTHERS}{uuid4().hex}:"
        self._database = database
        self._interval = interval
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._runs: dict[str, int] = {}
        self._inboxes: dict[str, int] = {}
        self._called: dict[str, Callable[[], None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to listen and to look; a second call does nothing."""
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._listen()),
                asyncio.create_task(self._look()),
            ]

    async def close(self) -> None:
        """Stop listening."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.notifier.close()

    def announce(self, event: str) -> None:
        """Tell an event to this process and to all others."""
        self.fire(event)
        self.notifier.send(event)

    def announce_to_others(self, event: str) -> None:
        """Tell an event to all processes but this one."""
        self.notifier.send(f"{self._others}{event}")

    def fire(self, event: str) -> None:
        """Wake whoever waits for an event in this process."""
        for waiting in self._waiting.get(event, ()):
            waiting.set()
        called = self._called.get(event)
        if called is not None:
            called()

    def call(self, event: str, called: Callable[[], None]) -> None:
        """Call a function at each such event, and after a cut connection."""
        self._called[event] = called

    def uncall(self, event: str) -> None:
        """Undo `call`."""
        self._called.pop(event, None)

    @contextmanager
    def end_of(self, workflow_id: str) -> Generator[asyncio.Event]:
        """Give an event that is set when the run may have ended."""
        with _counted(self._runs, workflow_id), self._wait(ended(workflow_id)) as event:
            yield event

    @contextmanager
    def message_of(self, workflow_id: str, topic: str) -> Generator[asyncio.Event]:
        """Give an event that is set when the run may have a message of the topic."""
        with (
            _counted(self._inboxes, workflow_id),
            self._wait(arrived(workflow_id, topic)) as event,
        ):
            yield event

    @contextmanager
    def _wait(self, name: str) -> Generator[asyncio.Event]:
        self.start()
        event = asyncio.Event()
        self._waiting.setdefault(name, set()).add(event)
        try:
            yield event
        finally:
            waiting = self._waiting[name]
            waiting.discard(event)
            if not waiting:
                del self._waiting[name]

    def _fire_all(self) -> None:
        for event in [*self._waiting, *self._called]:
            self.fire(event)

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except Exception as error:
                logger.debug("listening again: %s", error)
            await asyncio.sleep(_RECONNECT)

    async def _listen_once(self) -> None:
        connection = await self._database.connection()
        try:
            await connection.add_listener(CHANNEL, self._heard)
            await connection.add_listener(DBOS_CHANNEL, self._heard_dbos)
            self._fire_all()
            while True:
                await asyncio.sleep(_ALIVE)
                await connection.execute("SELECT 1", timeout=_ALIVE)
        finally:
            connection.terminate()

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        event = str(payload)
        if event.startswith(_OTHERS):
            if event.startswith(self._others):
                return
            event = event.removeprefix(_OTHERS).partition(":")[2]
        self.fire(event)

    def _heard_dbos(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        self.fire(f"arrived:{payload}")

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            with contextlib.suppress(Exception):
                await self._look_once()

    async def _look_once(self) -> None:
        if self._runs:
            for row in await self._database.rows(_ENDED, list(self._runs), list(FINISHED)):
                self.fire(ended(row["workflow_uuid"]))
        if self._inboxes:
            for row in await self._database.rows(_MESSAGES, list(self._inboxes)):
                self.fire(arrived(row["destination_uuid"], row["topic"]))


@contextmanager
def _counted(counts: dict[str, int], key: str) -> Generator[None]:
    counts[key] = counts.get(key, 0) + 1
    try:
        yield
    finally:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]
