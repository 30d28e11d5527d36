"""What a step may ask about its own attempt: heartbeats, number, facts, cancel.

One context variable carries it; the engine sets it for one attempt. Two engines may live in
one process. The functions are plain: they work alike in async steps, in sync steps (their
thread has a copy of the context) and in tasks that a step starts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from iworkflow.core.codec import ANY, DEFAULT_MAX_PAYLOAD, check_size, decode, encode
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.steps.signals import StepSignal

if TYPE_CHECKING:
    from typing_extensions import TypeForm

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class StepInfo:
    """The facts of one attempt of a step."""

    workflow_id: str
    run_id: str
    app: str
    flow: str
    step: str
    attempt: int
    """1 for the first."""
    pool: str | None = None
    deadline: datetime | None = None
    """When this attempt is cancelled at the latest (aware, UTC)."""


class StepScope:
    """One attempt, as the functions of this module see it. Set by an engine.

    Args:
        info: the facts.
        previous: what earlier attempts reported last by `heartbeat`.
        on_beat: called after each beat, from the thread of the step, with what was reported
            last; it must be quick and safe to call from any thread.
        max_payload: how large a report may be, in encoded bytes.
    """

    def __init__(
        self,
        info: StepInfo,
        *,
        previous: JsonValue = None,
        on_beat: Callable[[JsonValue], None] | None = None,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
    ) -> None:
        self.info = info
        self.signal = StepSignal()
        self.previous = previous
        self.latest = previous
        self.beat_at = time.monotonic()
        self._on_beat = on_beat
        self._max_payload = max_payload
        self._open = True
        self._lock = threading.Lock()

    def beat(self, details: Any) -> None:
        """Take a sign of life. After the attempt's end: nothing."""
        where = f"heartbeat of step {self.info.step!r}"
        report = None if details is None else encode(details, where=where)
        check_size(report, self._max_payload, where=where)
        with self._lock:
            if not self._open:
                return
            self.beat_at = time.monotonic()
            if report is not None:
                self.latest = report
            if self._on_beat is not None:
                self._on_beat(self.latest)

    def restart_clock(self) -> None:
        """Count the time without a beat from now."""
        self.beat_at = time.monotonic()

    def close(self) -> None:
        """End the attempt: what is left of the step reports nothing any more."""
        with self._lock:
            self._open = False


step_scope: ContextVar[StepScope] = ContextVar("iworkflow_step_scope")
"""The attempt that runs here. Set by an engine, for one attempt."""


def _current(asker: str) -> StepScope:
    scope = step_scope.get(None)
    if scope is None:
        raise RuntimeError(f"{asker}() works only inside a step that an engine runs")
    return scope


def heartbeat(details: Any = None) -> None:
    """Tell that the step is alive, and how far it is.

    `details` is what `last_heartbeat` gives in the next attempt, also after the worker died: it
    is durable within a second, and when the attempt ends. Without details, those reported
    before stay. Beating often is cheap: an engine writes at most twice a second.

    Raises:
        RuntimeError: outside a step.
        TypeError: the details cannot be encoded.
        Failure: type `PayloadTooLarge`.
    """
    _current("heartbeat").beat(details)


@overload
def last_heartbeat() -> Any: ...
@overload
def last_heartbeat(result_type: TypeForm[R]) -> R | None: ...
def last_heartbeat(result_type: Any = ANY) -> Any:
    """Return what earlier attempts reported last by `heartbeat`; None if they did not.

    It does not change while the attempt runs.

    Args:
        result_type: as what it is decoded; without it, plain JSON values.

    Raises:
        RuntimeError: outside a step.
        Failure: type `DecodeError`: it does not fit `result_type`.
    """
    scope = _current("last_heartbeat")
    if scope.previous is None:
        return None
    return decode(scope.previous, result_type, where=f"heartbeat of step {scope.info.step!r}")


def step_attempt() -> int:
    """Return the number of this attempt, 1 for the first. Outside a step: `RuntimeError`."""
    return _current("step_attempt").info.attempt


def step_info() -> StepInfo:
    """Return the facts of this attempt. Outside a step: `RuntimeError`."""
    return _current("step_info").info


def step_signal() -> StepSignal:
    """Return what tells that this attempt ends early. Outside a step: `RuntimeError`.

    A sync step looks at `.cancelled` or calls `.raise_if_cancelled()` now and then: its thread
    cannot be stopped from outside. An async step is cancelled the asyncio way as well.
    """
    return _current("step_signal").signal
