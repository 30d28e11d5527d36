"""Runs as Temporal describes them, in the port's terms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import WorkflowExecution, WorkflowExecutionDescription
from temporalio.client import WorkflowExecutionStatus as Raw

from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.options import DEFAULT_PRIORITY
from iworkflow.core.port import FlowDescription, FlowFilter, StartRequest, Status
from iworkflow.temporal.names import PRIORITY

_STATUSES = {
    Raw.COMPLETED: Status.COMPLETED,
    Raw.FAILED: Status.FAILED,
    Raw.TIMED_OUT: Status.TIMED_OUT,
    Raw.TERMINATED: Status.TERMINATED,
    Raw.CANCELED: Status.TERMINATED,
}
_QUERIES = {
    Status.RUNNING: ("Running", "ContinuedAsNew"),
    Status.COMPLETED: ("Completed",),
    Status.FAILED: ("Failed",),
    Status.TIMED_OUT: ("TimedOut", "Terminated", "Canceled"),
    Status.TERMINATED: ("Terminated", "Canceled"),
}


def description_of(run: WorkflowExecution) -> FlowDescription:
    """Describe a run."""
    return FlowDescription(
        id=run.id,
        app=run.task_queue,
        flow=run.workflow_type,
        status=status_of(run),
        started_at=run.start_time,
        closed_at=run.close_time,
        priority=_priority(run.raw_info),
        parent_id=run.parent_id,
    )


def status_of(run: WorkflowExecution) -> Status:
    """Tell the status; what was terminated past its deadline had timed out."""
    status = _STATUSES.get(run.status or Raw.RUNNING, Status.RUNNING)
    if status is Status.TERMINATED and is_late(run):
        return Status.TIMED_OUT
    return status


def is_late(run: WorkflowExecution) -> bool:
    """Tell whether the run was closed at its deadline or after it.

    Temporal tells a run's time limit only when that one run is described.
    """
    if not isinstance(run, WorkflowExecutionDescription):
        return False
    limit = run.raw_description.execution_config.workflow_execution_timeout.ToTimedelta()
    if not limit or run.close_time is None:
        return False
    return run.close_time >= run.start_time + limit


def is_unclear(run: WorkflowExecution) -> bool:
    """Tell whether a listed run has to be described to know how it ended."""
    return _STATUSES.get(run.status or Raw.RUNNING) is Status.TERMINATED


def query_of(filter: FlowFilter) -> str:
    """Write the filter in the language of Temporal's visibility.

    It may let other prefixes pass: a server looks past upper case, or misreads a quote or a
    backslash in a prefix. Only what stands before those is asked for.
    """
    parts: list[str] = []
    prefix = re.split(r'[\\"]', filter.id_prefix or "")[0]
    if prefix:
        parts.append(f"WorkflowId STARTS_WITH {_quoted(prefix)}")
    if filter.app is not None:
        parts.append(f"TaskQueue = {_quoted(filter.app)}")
    if filter.flow is not None:
        parts.append(f"WorkflowType = {_quoted(filter.flow)}")
    if filter.status is not None:
        names = ", ".join(_quoted(name) for name in _QUERIES[filter.status])
        parts.append(f"ExecutionStatus IN ({names})")
    if filter.since is not None:
        parts.append(f"StartTime >= {_quoted(_moment(filter.since))}")
    return " AND ".join(parts)


def deadline_of(started_at: datetime, timeout: timedelta | None) -> float | None:
    """Tell when a run is over at the latest, in seconds since the epoch."""
    return None if not timeout else (started_at + timeout).timestamp()


def memo_of(request: StartRequest) -> Mapping[str, JsonValue]:
    """Return the memo of a run that is started."""
    return {} if request.priority == DEFAULT_PRIORITY else {PRIORITY: request.priority}


def _priority(info: WorkflowExecutionInfo | object) -> int:
    if not isinstance(info, WorkflowExecutionInfo):
        return DEFAULT_PRIORITY
    told = info.memo.fields.get(PRIORITY)
    if told is not None:
        return int(told.data)
    return info.priority.priority_key or DEFAULT_PRIORITY


def _moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
