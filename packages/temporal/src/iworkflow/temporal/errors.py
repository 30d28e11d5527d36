"""The errors of Temporal, turned into ours in this one place."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, cast

from temporalio.exceptions import (
    ApplicationError,
    ApplicationErrorCategory,
    CancelledError,
    FailureError,
    TerminatedError,
    TimeoutError,
    TimeoutType,
)
from temporalio.service import RPCError, RPCStatusCode

from iworkflow.core.errors import ErrorData, FlowError, Reason
from iworkflow.core.options import StepPolicy
from iworkflow.core.port import Outcome
from iworkflow.core.steps import AttemptState, out_of_time

_NO_REASON = ("Workflow terminated", "terminated")
_ENDED = "already completed"
_NOBODY = ("ExternalWorkflowExecutionNotFound", "NamespaceNotFound")


_SHOWN = 500


class FailedError(ApplicationError):
    """How an error of ours reaches Temporal: our data is its only detail, the text is for its UI.

    Args:
        error: what failed.
        retry_in: seconds until Temporal makes another attempt; None makes it final.
        benign: the failure was expected.
    """

    def __init__(
        self, error: ErrorData, *, retry_in: float | None = None, benign: bool = False
    ) -> None:
        super().__init__(
            error.message[:_SHOWN],
            error.to_json(),
            type=error.type or str(error.reason),
            non_retryable=retry_in is None,
            next_retry_delay=None if retry_in is None else _delay(retry_in),
            category=(
                ApplicationErrorCategory.BENIGN if benign else ApplicationErrorCategory.UNSPECIFIED
            ),
        )


class ParkedError(Exception):
    """The run cannot go on under this code: Temporal tries again, perhaps under other code."""


def step_outcome(failure: BaseException | None, policy: StepPolicy) -> Outcome:
    """Read what a step's activity failed with."""
    if isinstance(failure, TimeoutError) and failure.type is TimeoutType.SCHEDULE_TO_START:
        state = _state(failure.last_heartbeat_details)
        made, last = (state.made, state.error) if state else (0, None)
        return Outcome(error=out_of_time(policy, made, last))
    return Outcome(error=_data(failure))


def run_outcome(workflow_id: str, failure: BaseException | None) -> Outcome:
    """Read what a run failed with."""
    if isinstance(failure, TimeoutError):
        return timed_out(workflow_id)
    if isinstance(failure, TerminatedError | CancelledError):
        reason = failure.message if isinstance(failure, TerminatedError) else ""
        told = f": {reason}" if reason and reason not in _NO_REASON else ""
        text = f"flow {workflow_id!r} was terminated{told}"
        return Outcome(error=ErrorData(text, Reason.TERMINATED))
    return Outcome(error=_data(failure))


def timed_out(workflow_id: str) -> Outcome:
    """Build the outcome of a run that took too long."""
    return Outcome(error=ErrorData(f"flow {workflow_id!r} timed out", Reason.TIMEOUT))


def unsent(workflow_id: str, error: ApplicationError) -> Outcome:
    """Read why a message of a flow did not reach another."""
    if error.type in _NOBODY:
        return Outcome(error=ErrorData(f"no running flow {workflow_id!r}", Reason.NOT_FOUND))
    text = f"flow {workflow_id!r} takes no message: {error.message}"
    return Outcome(error=ErrorData(text, Reason.FAILED, error.type))


def data_of(error: FlowError) -> ErrorData:
    """Return an error of the port as data."""
    return ErrorData(error.message, error.reason, error.type, error.details, error.exhausted)


def _state(details: Any) -> AttemptState | None:
    first: object = details[0] if details else None
    if not isinstance(first, dict) or "made" not in first:
        return None
    return AttemptState.from_json(cast("dict[str, Any]", first))


def _data(failure: BaseException | None) -> ErrorData:
    """Read our own data back, or describe what somebody else's program failed with."""
    if isinstance(failure, ApplicationError):
        first: object = failure.details[0] if failure.details else None
        if isinstance(first, dict) and "message" in first and "reason" in first:
            return ErrorData.from_json(cast("dict[str, Any]", first))
        return ErrorData(failure.message, Reason.FAILED, failure.type)
    if isinstance(failure, TimeoutError):
        return ErrorData(failure.message, Reason.TIMEOUT)
    message = failure.message if isinstance(failure, FailureError) else str(failure)
    return ErrorData(message, Reason.FAILED, type(failure).__name__)


def not_found(workflow_id: str) -> FlowError:
    """Build the error of a run that is not there."""
    return FlowError(f"no flow {workflow_id!r}", reason=Reason.NOT_FOUND)


def finished(workflow_id: str) -> FlowError:
    """Build the error of a message to a run that has ended."""
    return FlowError(f"flow {workflow_id!r} is finished", reason=Reason.NOT_FOUND)


def is_missing(error: RPCError) -> bool:
    """Tell whether the server has no such run, or none that still runs."""
    return error.status is RPCStatusCode.NOT_FOUND


def has_ended(error: RPCError) -> bool:
    """Tell whether the run is there, but has ended."""
    return is_missing(error) and _ENDED in error.message


def unreachable(address: str, namespace: str, error: BaseException) -> Exception:
    """Build what a user reads when the server cannot be used: where, why, and what to do."""
    if isinstance(error, RPCError):
        why, remedy = _refused(namespace, error)
    else:
        why, remedy = _cut(str(error))
    return ConnectionError(f"cannot reach Temporal at {address} ({why}); {remedy}")


def _refused(namespace: str, error: RPCError) -> tuple[str, str]:
    match error.status:
        case RPCStatusCode.NOT_FOUND:
            return (
                f"no namespace {namespace!r}",
                "create it or set TEMPORAL_NAMESPACE",
            )
        case RPCStatusCode.UNAUTHENTICATED | RPCStatusCode.PERMISSION_DENIED:
            return (
                f"access to namespace {namespace!r} refused: {error.message}",
                "check TEMPORAL_API_KEY, TEMPORAL_NAMESPACE and the TLS certificate",
            )
        case _:
            return _cut(error.message)


_TLS = re.compile(r"certificate|handshake|tls|InvalidMessage|CorruptMessage", re.IGNORECASE)
_HUNG_UP = re.compile(
    r"close_notify|broken pipe|connection closed|connection reset|transport error", re.IGNORECASE
)
_CHECK_TLS = "check TEMPORAL_TLS and its certificate and key"
_START = 'run "iworkflow dev --temporal" or set TEMPORAL_ADDRESS'


def _cut(text: str) -> tuple[str, str]:
    known = (
        ("ConnectionRefused", "connection refused", _START),
        ("connection refused", "connection refused", _START),
        ("dns error", "no such host", "set TEMPORAL_ADDRESS"),
        ("failed to lookup", "no such host", "set TEMPORAL_ADDRESS"),
        ("Timeout expired", "no answer", _START),
        ("deadline", "no answer", _START),
    )
    for part, why, remedy in known:
        if part in text:
            return why, remedy
    if _HUNG_UP.search(text) and "certificate" not in text:
        return "the server hung up", f"{_CHECK_TLS}: it may want TLS, or a client's certificate"
    if _TLS.search(text):
        return f"TLS failed: {_tls(text)}", _CHECK_TLS
    return _last(text), _START


_TLS_CAUSES = (
    ("Expired", "the server's certificate has expired"),
    ("UnknownIssuer", "the server's certificate is from an unknown issuer"),
    ("NotValidForName", "the server's certificate is for another host"),
)


def _tls(text: str) -> str:
    return next((told for cause, told in _TLS_CAUSES if cause in text), _last(text))


_HEADERS = re.compile(r"MetadataMap \{ headers: \{.*?\} \}")


def _last(text: str) -> str:
    """Return the innermost message of an error that the Rust side has nested."""
    found = re.findall(r'(?:message|error): "([^"]+)"|"([^"]+)"', _HEADERS.sub("", text))
    named = [one or other for one, other in found]
    return named[-1] if named else text.strip()[:300]


def _delay(seconds: float) -> timedelta:
    # None and zero would leave the wait to Temporal's own policy.
    return timedelta(seconds=max(seconds, 0.001))
