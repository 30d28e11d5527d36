"""Runs as rows of DBOS's table: their status in the port's terms, their outcome, their facts.

A run's deadline and parent stand in the row's public attributes. Not in DBOS's own columns: its
timeout counts from the dequeue, and a child would inherit its parent's deadline. Whether a run
timed out is computed from the stored deadline, so it holds while no worker is alive.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

from iworkflow.core.errors import ErrorData, Reason
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.options import DEFAULT_PRIORITY
from iworkflow.core.port import FlowDescription, FlowFilter, Outcome, Status
from iworkflow.dbos.database import Database, Row
from iworkflow.dbos.envelope import PORTABLE

DEADLINE: Final = "iwf.deadline"
"""Milliseconds since the epoch."""
PARENT: Final = "iwf.parent"
ORIGIN: Final = "iwf.origin"
"""Who started the run: tells a start that is made again from another one's."""
REASON: Final = "iwf.reason"
"""Why the run was terminated."""

FINISHED: Final = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")

_DEADLINE = f"(w.attributes->>'{DEADLINE}')::bigint"
_NOW = "(extract(epoch from clock_timestamp()) * 1000)::bigint"
# An outcome that is recorded past the deadline counts as little as none: readers have seen that
# the run timed out.
_STATUS = f"""CASE
    WHEN w.status IN {FINISHED} AND coalesce(w.completed_at, w.updated_at) >= {_DEADLINE}
        THEN 'timed-out'
    WHEN w.status = 'SUCCESS' THEN 'completed'
    WHEN w.status IN ('ERROR', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED') THEN 'failed'
    WHEN w.status = 'CANCELLED' THEN 'terminated'
    WHEN {_NOW} >= {_DEADLINE} THEN 'timed-out'
    ELSE 'running' END"""
_COLUMNS = f"""w.workflow_uuid AS id, w.name AS flow, coalesce(w.application_name, '') AS app,
    w.status AS raw, w.created_at, w.completed_at, w.priority, w.parent_workflow_id,
    w.attributes, {_STATUS} AS status"""

_RUN = f"SELECT {_COLUMNS} FROM dbos.workflow_status w WHERE w.workflow_uuid = $1"  # noqa: S608
_OUTCOME = f"""SELECT {_COLUMNS}, coalesce(o.output, w.output) AS output,
        coalesce(o.error, w.error) AS error, w.serialization
    FROM dbos.workflow_status w LEFT JOIN dbos.workflow_output o USING (workflow_uuid)
    WHERE w.workflow_uuid = $1"""  # noqa: S608
_LIST = f"""SELECT * FROM (SELECT {_COLUMNS} FROM dbos.workflow_status w
        WHERE ($1::text IS NULL OR starts_with(w.workflow_uuid, $1))
        AND ($2::text IS NULL OR w.application_name = $2)
        AND ($3::text IS NULL OR w.name = $3)
        AND ($4::bigint IS NULL OR w.created_at >= $4)
        AND w.name NOT LIKE '\\_dbos\\_%') AS runs
    WHERE ($5::text IS NULL OR status = $5)
    ORDER BY created_at DESC, id DESC LIMIT $6"""  # noqa: S608
_COUNTS = f"""SELECT {_STATUS} = 'running' OR EXISTS (
        SELECT 1 FROM dbos.notifications n WHERE n.message_uuid = $2 AND n.consumed)
    FROM dbos.workflow_status w WHERE w.workflow_uuid = $1"""  # noqa: S608
_STATE = """SELECT e.value, e.serialization
    FROM dbos.workflow_status w LEFT JOIN dbos.workflow_events e
        ON e.workflow_uuid = w.workflow_uuid AND e.key = $2
    WHERE w.workflow_uuid = $1"""


@dataclass(frozen=True, slots=True)
class Run:
    """A run's row."""

    description: FlowDescription
    over: bool
    """Whether its row says that it ended; one past its deadline may not say so yet."""
    origin: str | None = None
    outcome: Outcome | None = None
    deadline: float | None = None
    """Seconds since the epoch."""

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.description.id

    @property
    def status(self) -> Status:
        """The status in the port's terms."""
        return self.description.status

    @property
    def late(self) -> bool:
        """Whether it is past its deadline and nobody has ended it yet."""
        return self.status is Status.TIMED_OUT and not self.over


async def read(database: Database, workflow_id: str) -> Run | None:
    """Read a run, without its outcome."""
    row = await database.row(_RUN, workflow_id)
    return None if row is None else _run(row)


async def read_outcome(database: Database, workflow_id: str) -> Run | None:
    """Read a run with its outcome, which is None while it runs."""
    row = await database.row(_OUTCOME, workflow_id)
    return None if row is None else _run(row, _outcome(row))


async def read_list(database: Database, wanted: FlowFilter) -> list[Run]:
    """Read the runs that fit, newest first."""
    since = None if wanted.since is None else int(wanted.since.timestamp() * 1000)
    status = None if wanted.status is None else str(wanted.status)
    rows = await database.rows(
        _LIST, wanted.id_prefix, wanted.app, wanted.flow, since, status, wanted.limit
    )
    return [_run(row) for row in rows]


async def read_state(database: Database, workflow_id: str, key: str) -> tuple[bool, JsonValue]:
    """Read whether the run is there, and the value last set under a key."""
    row = await database.row(_STATE, workflow_id, key)
    if row is None:
        return False, None
    return True, decode(row["value"], row["serialization"])


async def counts(database: Database, workflow_id: str, message_uuid: str) -> bool:
    """Tell whether a sent message counts: its run goes on, or took it before it ended."""
    return bool(await database.value(_COUNTS, workflow_id, message_uuid))


def decode(text: str | None, serialization: str | None) -> JsonValue:
    """Read a stored value.

    Raises:
        ValueError: it was not written as portable JSON.
    """
    if text is None:
        return None
    if serialization not in (None, PORTABLE):
        raise ValueError(f"stored as {serialization!r}, not as portable JSON")
    return cast("JsonValue", json.loads(text))


def attributes_of(row: Row) -> Mapping[str, Any]:
    """Return the attributes of a row; DBOS writes `null` where none were given."""
    found = json.loads(row["attributes"] or "null")
    return cast("Mapping[str, Any]", found or {})


def deadline_of(attributes: Mapping[str, Any]) -> float | None:
    """Return the deadline among a run's attributes, in seconds since the epoch."""
    found = attributes.get(DEADLINE)
    return None if found is None else float(found) / 1000


def priority_of(row: Row) -> int:
    """Return the priority of a row; DBOS writes 0 where none was given."""
    return int(row["priority"]) or DEFAULT_PRIORITY


def moment(milliseconds: int) -> datetime:
    """Turn DBOS's time into an aware one."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _run(row: Row, outcome: Outcome | None = None) -> Run:
    attributes = attributes_of(row)
    over = row["raw"] in FINISHED
    description = FlowDescription(
        id=row["id"],
        app=row["app"],
        flow=row["flow"],
        status=Status(row["status"]),
        started_at=moment(row["created_at"]),
        closed_at=_closed(row, attributes, over=over),
        priority=priority_of(row),
        parent_id=attributes.get(PARENT) or row["parent_workflow_id"],
    )
    return Run(description, over, attributes.get(ORIGIN), outcome, deadline_of(attributes))


def _closed(row: Row, attributes: Mapping[str, Any], *, over: bool) -> datetime | None:
    """Return the end of a run. Of one that timed out its deadline: the row is ended later."""
    if row["status"] == Status.TIMED_OUT:
        return moment(attributes[DEADLINE])
    if over and row["completed_at"] is not None:
        return moment(row["completed_at"])
    return None


def _outcome(row: Row) -> Outcome | None:
    status = Status(row["status"])
    if status is Status.COMPLETED:
        return _value(row)
    if status is Status.FAILED:
        return Outcome(error=_failure(row))
    if status is Status.TIMED_OUT:
        return Outcome(error=_ended(row, "timed out", Reason.TIMEOUT))
    if status is Status.TERMINATED:
        reason = attributes_of(row).get(REASON)
        how = f"was terminated: {reason}" if reason else "was terminated"
        return Outcome(error=_ended(row, how, Reason.TERMINATED))
    return None


def _value(row: Row) -> Outcome:
    try:
        return Outcome(decode(row["output"], row["serialization"]))
    except ValueError as error:
        return Outcome(error=undecodable(f"result of flow {row['id']!r}", error))


def _failure(row: Row) -> ErrorData:
    if row["error"] is None:
        return ErrorData(f"flow {row['id']!r} was started too often", Reason.FAILED)
    try:
        stored = cast("dict[str, Any]", decode(row["error"], row["serialization"]))
    except ValueError as error:
        return undecodable(f"error of flow {row['id']!r}", error)
    data: Any = stored.get("data")
    if isinstance(data, dict) and "reason" in data:
        return ErrorData.from_json(cast("dict[str, Any]", data))
    return ErrorData(
        str(stored.get("message", "")),
        Reason.FAILED,
        type=cast("str | None", stored.get("name")),
        details=cast("JsonValue", data),
    )


def _ended(row: Row, how: str, reason: Reason) -> ErrorData:
    return ErrorData(f"flow {row['id']!r} {how}", reason)


def undecodable(what: str, error: Exception) -> ErrorData:
    """Build the failure of a value that another program stored in a form of its own."""
    return ErrorData(f"{what}: {error}", Reason.FAILED, type="DecodeError")
