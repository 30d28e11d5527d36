"""What the log says of failed attempts."""

from __future__ import annotations

import logging
from dataclasses import asdict

from iworkflow.core.errors import ErrorData
from iworkflow.core.options import StepPolicy
from iworkflow.core.steps.describe import StepError
from iworkflow.core.steps.scope import StepInfo

_log = logging.getLogger("iworkflow.steps")

_WHERE = "[app %r, flow %r, run %r]"


def report_retry(info: StepInfo, policy: StepPolicy, failed: StepError, delay: float) -> None:
    """Log that another attempt follows: as a warning, or as information if it is benign."""
    _log.log(
        logging.INFO if failed.benign else logging.WARNING,
        f"step %r: attempt %d%s failed: %s; the next follows in %g s {_WHERE}",
        info.step,
        info.attempt,
        "" if policy.attempts is None else f" of {policy.attempts}",
        _told(failed.error),
        delay,
        *_where(info),
        extra=_fields(info),
    )


def report_final(info: StepInfo, failed: StepError | None, error: ErrorData) -> None:
    """Log that the step failed: as an error with its traceback, or as information if benign."""
    benign = failed is not None and failed.benign
    exception = None if failed is None or benign else failed.exception
    _log.log(
        logging.INFO if benign else logging.ERROR,
        f"step %r failed at attempt %d%s: %s {_WHERE}",
        info.step,
        info.attempt,
        ", the last one" if error.exhausted else "",
        _told(error),
        *_where(info),
        exc_info=exception,
        extra=_fields(info),
    )


def _told(error: ErrorData) -> str:
    return error.message if error.type is None else f"{error.type}: {error.message}"


def _where(info: StepInfo) -> tuple[str, str, str]:
    return info.app, info.flow, info.workflow_id


def _fields(info: StepInfo) -> dict[str, object]:
    return {f"iworkflow_{name}": value for name, value in asdict(info).items()}
