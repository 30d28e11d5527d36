"""Taking over the runs of a worker that is silent.

Each worker process has an executor id of its own and beats into `iwf.executor`, from a thread: an
event loop that is held up by a flow or a step is not death. Whoever of the app is alive looks for
executors that have been silent for longer than they said they would be, and hands on their runs.
A frozen process that wakes up is fenced: DBOS lets it record nothing more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iworkflow.dbos import recovery
from iworkflow.dbos.database import COMMAND_TIMEOUT, Database, connect
from iworkflow.dbos.errors import is_gone
from iworkflow.dbos.settings import Location

log = logging.getLogger("iworkflow.dbos")

PREFIX = "iwf-"
_JOIN = 10.0

BEAT = """INSERT INTO iwf.executor (executor_id, app, silent_after, patches) VALUES ($1, $2, $3, $4)
    ON CONFLICT (executor_id) DO UPDATE SET beat = now()"""
# Also those without a row: a frozen one may have taken runs after its row was gone.
SILENT = f"""SELECT DISTINCT w.executor_id
    FROM dbos.workflow_status w LEFT JOIN iwf.executor e USING (executor_id)
    WHERE w.status = 'PENDING' AND w.application_name = $1
        AND starts_with(w.executor_id, '{PREFIX}') AND w.executor_id <> $2
        AND (e.beat IS NULL OR e.beat + e.silent_after * interval '1 second' < now())"""  # noqa: S608
# It may have died, or stop, after it took a run and before it wrote the run's birth.
# The birth is as old as that: a worker that began since may have newer code.
_BORN = """INSERT INTO iwf.birth (workflow_id, app, patches, at)
    SELECT w.workflow_uuid, e.app, e.patches, to_timestamp(w.started_at_epoch_ms / 1000.0)
    FROM dbos.workflow_status w JOIN iwf.executor e USING (executor_id)
    WHERE w.executor_id = $1 AND w.status = 'PENDING' AND w.recovery_attempts = 1
        AND e.patches <> '{}'
    ON CONFLICT (workflow_id) DO NOTHING"""
_FORGET = """DELETE FROM iwf.executor e WHERE beat < now() - interval '1 hour'
    AND NOT EXISTS (SELECT 1 FROM dbos.workflow_status w
        WHERE w.executor_id = e.executor_id AND w.status = 'PENDING')"""
_LEAVE = "DELETE FROM iwf.executor WHERE executor_id = $1"


def executor_id() -> str:
    """Make an id for this process as an executor."""
    return f"{PREFIX}{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"


@dataclass(frozen=True, slots=True)
class Executor:
    """This process as an executor."""

    id: str
    app: str
    silent_after: float
    """Seconds of silence after which the others take over."""
    patches: Sequence[str]
    """What the runs that it dispatches first are born with."""

    @property
    def interval(self) -> float:
        """Seconds between two beats."""
        return min(2.0, self.silent_after / 5)


class Heart(threading.Thread):
    """Beats and looks for the silent, on a connection and an event loop of its own.

    Args:
        location: the database.
        executor: this process.
        taken_over: called, in a thread of its own, when runs were handed on.
        gone: called, in this thread, when the database was dropped; it beats no more then.
    """

    def __init__(
        self,
        location: Location,
        executor: Executor,
        *,
        taken_over: Callable[[], None],
        gone: Callable[[BaseException], None],
    ) -> None:
        super().__init__(name="iworkflow-heart", daemon=True)
        self._location = location
        self._executor = executor
        self._taken_over = taken_over
        self._gone = gone
        self._ending = threading.Event()
        self._taking: threading.Thread | None = None

    def stop(self) -> None:
        """Beat no more. It blocks until the threads have ended."""
        self._ending.set()
        for thread in (self, self._taking):
            if thread is not None and thread.is_alive():
                thread.join(_JOIN)

    def run(self) -> None:
        """Beat until `stop`, whatever happens to the connection, or until nothing is left."""
        while not self._ending.is_set():
            try:
                asyncio.run(self._beat_on_one_connection())
            except Exception as error:
                if is_gone(error):
                    self._gone(error)
                    return
                log.warning("no beat of executor %s: %s", self._executor.id, error)
                self._ending.wait(min(1.0, self._executor.interval))

    async def _beat_on_one_connection(self) -> None:
        connection = await connect(self._location)
        try:
            await connection.execute(_FORGET, timeout=COMMAND_TIMEOUT)
            while not self._ending.is_set():
                await beat(connection, self._executor)
                if self._taking is None or not self._taking.is_alive():
                    await self._look(connection)
                await asyncio.to_thread(self._ending.wait, self._executor.interval)
        finally:
            connection.terminate()

    async def _look(self, connection: Any) -> None:
        mine = self._executor
        silent = await connection.fetch(SILENT, mine.app, mine.id, timeout=COMMAND_TIMEOUT)
        ids = [row["executor_id"] for row in silent]
        for id in ids:
            await connection.execute(_BORN, id, timeout=COMMAND_TIMEOUT)
        if ids:
            # DBOS waits long for a database that is away: our own beats must not.
            self._taking = threading.Thread(target=self._take_over, args=(ids,), daemon=True)
            self._taking.start()

    def _take_over(self, ids: Sequence[str]) -> None:
        for id in ids:
            try:
                count = recovery.hand_on(id)
            except Exception as error:
                log.warning("the runs of executor %s are not taken over yet: %s", id, error)
            else:
                log.warning("executor %s is silent: took over %d runs", id, count)
                self._taken_over()


async def beat(connection: Any, executor: Executor) -> None:
    """Beat once."""
    facts = executor.id, executor.app, executor.silent_after, executor.patches
    await connection.execute(BEAT, *facts, timeout=COMMAND_TIMEOUT)


async def write_births(database: Database, executor: Executor) -> None:
    """Note what runs were born with that were taken and not begun, before they are handed on."""
    await database.execute(_BORN, executor.id)


async def leave(database: Database, executor: Executor) -> None:
    """Take the executor out of the book: it has no runs any more."""
    await database.execute(_LEAVE, executor.id)
