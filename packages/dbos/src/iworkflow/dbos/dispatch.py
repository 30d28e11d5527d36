"""The start of a dispatch: what a worker reads of the run that it was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid5

from iworkflow.core.definition import AppDefinition
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import Record, RunInfo
from iworkflow.core.steps import AttemptState
from iworkflow.dbos import runs
from iworkflow.dbos.attempts import load_attempts
from iworkflow.dbos.database import Database, Row
from iworkflow.dbos.envelope import read_row
from iworkflow.dbos.messages import Owner

_RUN = """SELECT w.status, w.executor_id, w.owner_xid, w.created_at, w.priority, w.attributes,
        w.recovery_attempts, w.parent_workflow_id, b.patches,
        b.at > (SELECT started_at FROM iwf.executor WHERE executor_id = $2) AS younger
    FROM dbos.workflow_status w LEFT JOIN iwf.birth b ON b.workflow_id = w.workflow_uuid
    WHERE w.workflow_uuid = $1"""
_HISTORY = """SELECT function_id, function_name, output, serialization
    FROM dbos.operation_outputs WHERE workflow_uuid = $1"""
_BIRTH = """INSERT INTO iwf.birth (workflow_id, app, patches) VALUES ($1, $2, $3)
    ON CONFLICT (workflow_id) DO NOTHING"""


_RUN_IDS: Final = UUID("6c1f7b9e-1d5a-4a37-9f0e-52c8e3b7a914")


@dataclass(frozen=True, slots=True)
class Asked:
    """What DBOS asks a worker to run."""

    flow: str
    workflow_id: str
    args: Sequence[JsonValue]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A run as it was found, and the execution that may go on with it."""

    info: RunInfo
    owner: Owner
    history: Mapping[int, Record]
    attempts: Mapping[int, AttemptState]
    again: bool
    """Whether an earlier dispatch may have left rows of ours."""


async def load(
    database: Database, executor_id: str, app: AppDefinition, asked: Asked
) -> Dispatch | None:
    """Read the run; None if it is not this process's to run.

    At its first dispatch, a run of an app that declares patches gets its birth written: the
    patches declared then are its own for good.
    """
    workflow_id = asked.workflow_id
    row = await database.row(_RUN, workflow_id, executor_id)
    if row is None or row["status"] != "PENDING" or row["executor_id"] != executor_id:
        return None
    rows = await database.rows(_HISTORY, workflow_id)
    history = {
        r["function_id"]: read_row(r["function_name"], r["output"], r["serialization"])
        for r in rows
    }
    again = bool(history) or row["recovery_attempts"] > 1
    patches = await _patches(database, row, app, workflow_id, again=again)
    attempts = await load_attempts(database, workflow_id) if again else {}
    info = _info(row, app.app, asked, patches)
    return Dispatch(info, Owner(workflow_id, row["owner_xid"]), history, attempts, again)


async def _patches(
    database: Database, row: Row, app: AppDefinition, workflow_id: str, *, again: bool
) -> frozenset[str]:
    if row["patches"] is not None:
        return frozenset(row["patches"])
    if again or not app.patches:
        return frozenset()
    await database.execute(_BIRTH, workflow_id, app.app, sorted(app.patches))
    return frozenset(app.patches)


def _info(row: Row, app: str, asked: Asked, patches: frozenset[str]) -> RunInfo:
    attributes = runs.attributes_of(row)
    return RunInfo(
        workflow_id=asked.workflow_id,
        run_id=_run_id(asked.workflow_id, attributes.get(runs.ORIGIN) or row["created_at"]),
        app=app,
        flow=asked.flow,
        args=asked.args,
        started_at=runs.moment(row["created_at"]),
        priority=runs.priority_of(row),
        parent_id=attributes.get(runs.PARENT) or row["parent_workflow_id"],
        deadline=runs.deadline_of(attributes),
        patches=patches,
        younger=bool(row["younger"]),
    )


def _run_id(workflow_id: str, origin: str | int) -> str:
    """Name a run, for all its dispatches and unlike another one that had its id before.

    What the flow draws and sends, and whom it starts, is derived from this: it cannot be guessed
    from the id. A run that another program enqueued has no origin; its time tells it apart.
    """
    return str(uuid5(_RUN_IDS, f"{workflow_id} {origin}"))
