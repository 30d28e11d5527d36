"""Whether a failed attempt is followed by another one, and when. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iworkflow.core.errors import ErrorData, Reason
from iworkflow.core.options import StepPolicy
from iworkflow.core.steps.describe import StepError

LONGEST_WAIT = 365 * 86_400.0
"""No wait between attempts is longer, in seconds."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Make another attempt after `delay` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Make no further attempt: the step failed with this error."""

    error: ErrorData


def decide(policy: StepPolicy, *, attempt: int, elapsed: float, error: StepError) -> Retry | GiveUp:
    """Decide what follows attempt number `attempt` (1 for the first), which failed.

    - A final error ends the step as it is.
    - The last allowed attempt ends it, `exhausted`; with reason `timeout` if that attempt took
      too long.
    - If the next wait would pass `total_timeout`, the step ends now: reason `timeout`, type and
      details of the last error, not exhausted.
    - Otherwise the wait is the failure's own `retry_after`, or grows by `backoff`.

    Args:
        policy: the step's options.
        attempt: how many attempts were made.
        elapsed: seconds since the step was asked for, waits included.
        error: what the attempt failed with.
    """
    if not error.retryable:
        return GiveUp(error.error)
    if policy.attempts is not None and attempt >= policy.attempts:
        return GiveUp(replace(error.error, exhausted=True))
    delay = _wait(policy, attempt) if error.retry_after is None else error.retry_after
    delay = min(delay, LONGEST_WAIT)
    if policy.total_timeout is not None and elapsed + delay > policy.total_timeout:
        return GiveUp(out_of_time(policy, attempt, error.error))
    return Retry(delay)


def out_of_time(policy: StepPolicy, made: int, last: ErrorData | None) -> ErrorData:
    """Build the error of a step whose `total_timeout` allows no further attempt."""
    attempts = "1 attempt" if made == 1 else f"{made} attempts"
    message = f"total_timeout of {policy.total_timeout:g} s leaves no time after {attempts}"
    if last is None:
        return ErrorData(message=message, reason=Reason.TIMEOUT)
    return ErrorData(
        message=f"{message}: {last.message}",
        reason=Reason.TIMEOUT,
        type=last.type,
        details=last.details,
        cause=last.cause,
    )


def _wait(policy: StepPolicy, attempt: int) -> float:
    longest = LONGEST_WAIT if policy.max_retry_interval is None else policy.max_retry_interval
    try:
        return min(policy.retry_interval * policy.backoff ** (attempt - 1), longest)
    except OverflowError:
        return longest
