"""Taking messages: once each, in the order of their sending, across crashes.

Messages lie in DBOS's own table, put there by DBOS's own `send`, so senders in other languages and
DBOS's console reach our flows. They are not taken with its `recv`, which refuses two readers of
one topic and may consume a message for a reader that was cancelled. A taken message is claimed for
the place of the operation that took it: performed again at that place, the operation gets the same
message. A claim also keeps the moment until which the operation waits.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import Outcome, Receive
from iworkflow.dbos.database import Database
from iworkflow.dbos.errors import LostRunError
from iworkflow.dbos.runs import decode, undecodable
from iworkflow.dbos.wakeups import Wakeups

# One statement, so one round trip and all or nothing. A message counts for a wait that has a
# limit if it was sent before that; the column's milliseconds are rounded, hence the 1.
_TAKE = """
WITH run AS MATERIALIZED (
    SELECT 1 FROM dbos.workflow_status
    WHERE workflow_uuid = $1 AND status = 'PENDING' AND owner_xid = $2 FOR NO KEY UPDATE),
held AS MATERIALIZED (
    SELECT until, message_uuid FROM iwf.claim WHERE workflow_id = $1 AND place = $3),
term AS MATERIALIZED (SELECT coalesce((SELECT until FROM held), $5::double precision) AS until),
oldest AS MATERIALIZED (
    SELECT message_uuid FROM dbos.notifications, term
    WHERE destination_uuid = $1 AND topic = $4 AND NOT consumed
        AND EXISTS (SELECT 1 FROM run)
        AND NOT EXISTS (SELECT 1 FROM held WHERE message_uuid IS NOT NULL)
        AND (term.until IS NULL OR created_at_epoch_ms <= term.until * 1000 + 1)
    ORDER BY created_at_epoch_ms, message_uuid LIMIT 1),
taken AS (
    UPDATE dbos.notifications n SET consumed = true, consumed_by_function_id = $3
    FROM oldest WHERE n.message_uuid = oldest.message_uuid AND NOT n.consumed
    RETURNING n.message_uuid, n.message, n.serialization, n.created_at_epoch_ms),
kept AS (
    INSERT INTO iwf.claim (workflow_id, place, topic, until, message_uuid)
    SELECT $1, $3, $4, term.until, (SELECT message_uuid FROM taken) FROM term
    WHERE EXISTS (SELECT 1 FROM run)
        AND (EXISTS (SELECT 1 FROM taken)
            OR term.until IS NOT NULL AND NOT EXISTS (SELECT 1 FROM held))
    ON CONFLICT (workflow_id, place) DO UPDATE SET message_uuid = EXCLUDED.message_uuid),
found AS (
    SELECT message, serialization, created_at_epoch_ms FROM taken
    UNION ALL
    SELECT n.message, n.serialization, n.created_at_epoch_ms
    FROM held JOIN dbos.notifications n USING (message_uuid))
SELECT EXISTS (SELECT 1 FROM run) AS ours, term.until, found.message, found.serialization,
    found.created_at_epoch_ms AS sent
FROM term LEFT JOIN found ON true
"""

# The record goes too, if it was written while the cancel was on its way.
_RELEASE = """
WITH run AS MATERIALIZED (
    SELECT 1 FROM dbos.workflow_status
    WHERE workflow_uuid = $1 AND status = 'PENDING' AND owner_xid = $2 FOR NO KEY UPDATE),
unrecorded AS (
    DELETE FROM dbos.operation_outputs
    WHERE workflow_uuid = $1 AND function_id = $3 AND EXISTS (SELECT 1 FROM run)),
claim AS MATERIALIZED (
    SELECT message_uuid FROM iwf.claim
    WHERE workflow_id = $1 AND place = $3 AND EXISTS (SELECT 1 FROM run)),
freed AS (
    UPDATE iwf.claim SET message_uuid = NULL
    WHERE workflow_id = $1 AND place = $3 AND EXISTS (SELECT 1 FROM run))
UPDATE dbos.notifications SET consumed = false, consumed_by_function_id = NULL
WHERE message_uuid IN (SELECT message_uuid FROM claim)
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a wait for a message came to, and the time of that: a message's is its sending."""

    outcome: Outcome
    at: float


@dataclass(slots=True)
class _Wait:
    """A wait that goes on at a place, and those who ask what it finds."""

    asking: list[asyncio.Future[bool]] = field(default_factory=list["asyncio.Future[bool]"])
    woken: asyncio.Event | None = None
    over: bool = False

    def ask(self) -> asyncio.Future[bool]:
        asked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.asking.append(asked)
        if self.over:
            self.answer(found=True)
        elif self.woken is not None:
            self.woken.set()
        return asked

    def take(self) -> list[asyncio.Future[bool]]:
        asking, self.asking = self.asking, []
        return asking

    def answer(self, *, found: bool) -> None:
        _answer(self.take(), found=found)


@dataclass(frozen=True, slots=True)
class Owner:
    """An execution of a run: the run, and the token by which DBOS knows the execution."""

    workflow_id: str
    token: str


class Inbox:
    """The messages of one run, for the execution that owns it."""

    def __init__(self, database: Database, wakeups: Wakeups, owner: Owner) -> None:
        self._database = database
        self._wakeups = wakeups
        self._owner = owner
        self._taking = asyncio.Lock()
        self._waits: dict[int, _Wait] = {}
        self.used = False
        """Whether a claim may have been written."""

    async def take(self, place: int, operation: Receive) -> Taken:
        """Wait for the oldest unread message of the topic and claim it for the place.

        Raises:
            LostRunError: another execution owns the run by now.
        """
        self.used = True
        wait = self._waits.setdefault(place, _Wait())
        try:
            return await self._take(place, operation, wait)
        finally:
            wait.over = True
            wait.answer(found=True)

    async def _take(self, place: int, operation: Receive, wait: _Wait) -> Taken:
        limit = operation.timeout
        until = None if limit is None else time.time() + limit
        with self._wakeups.message_of(self._owner.workflow_id, operation.name) as wait.woken:
            while True:
                wait.woken.clear()
                asking = wait.take()
                over = until is not None and time.time() >= until
                until, taken = await self._try(place, operation.name, until)
                _answer(asking, found=taken is not None)
                if taken is not None:
                    return taken
                if over and until is not None and time.time() >= until:
                    return Taken(Outcome(None), until)
                await _wait(wait.woken, until)

    async def look(self, place: int) -> bool:
        """Tell whether the wait at the place has, or now gets, a message."""
        return await self._waits.setdefault(place, _Wait()).ask()

    def forget(self, place: int) -> None:
        """Forget the wait at a place that is over and recorded."""
        self._waits.pop(place, None)

    async def release(self, place: int) -> None:
        """Give back what was taken for a place whose operation was cancelled."""
        await self._database.execute(_RELEASE, *self._key(), place)

    async def _try(
        self, place: int, topic: str, until: float | None
    ) -> tuple[float | None, Taken | None]:
        async with self._taking:
            row = await self._database.row(_TAKE, *self._key(), place, topic, until)
        if row is None or not row["ours"]:
            raise LostRunError(self._owner.workflow_id)
        if row["message"] is None:
            return row["until"], None
        outcome = _read(topic, row["message"], row["serialization"])
        return row["until"], Taken(outcome, (row["sent"] - 1) / 1000)

    def _key(self) -> tuple[str, str]:
        return self._owner.workflow_id, self._owner.token


def _answer(asking: list[asyncio.Future[bool]], *, found: bool) -> None:
    for asked in asking:
        if not asked.done():
            asked.set_result(found)


def _read(topic: str, message: str, serialization: str | None) -> Outcome:
    try:
        value: JsonValue = {"message": decode(message, serialization)}
    except ValueError as error:
        return Outcome(error=undecodable(f"message of topic {topic!r}", error))
    return Outcome(value)


async def _wait(woken: asyncio.Event, until: float | None) -> None:
    try:
        async with asyncio.timeout(None if until is None else max(0.0, until - time.time())):
            await woken.wait()
    except TimeoutError:
        pass
