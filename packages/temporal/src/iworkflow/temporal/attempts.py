"""One attempt of a step, as an activity.

Temporal waits between the attempts and finds the next worker; whether one follows, and when, is
decided here by core. How far a step is (`AttemptState`: the attempts that failed, what it
reported last) lies in the activity's heartbeat details, so it outlives the worker. A worker that
died made no attempt that counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, NoReturn, cast

from temporalio import activity
from temporalio.common import RawValue

from iworkflow.core.definition import AppDefinition
from iworkflow.core.errors import ErrorData, Reason
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.options import StepPolicy
from iworkflow.core.port import RunInfo, RunStep
from iworkflow.core.steps import Attempted, AttemptState, StepRunner
from iworkflow.temporal.errors import FailedError
from iworkflow.temporal.heart import Heart, Pulse

log = logging.getLogger("iworkflow.temporal")

HAND_ON = 0.001
_STOPS = "the worker stops"
_LOST = "cancelled"
_WAITED = "iwf.waited"
_STRANGE_AFTER = 2.0
_REPORT_GRACE = 5.0
_DEFAULT = StepPolicy()


def step_args(operation: RunStep, waited: float = 0.0) -> list[JsonValue]:
    """Return the arguments of the activity: the step's own, then its policy.

    Args:
        operation: the step.
        waited: for how many seconds the flow waited until the activity could be asked for.
    """
    policy = operation.policy
    changed: dict[str, JsonValue] = {
        field.name: getattr(policy, field.name)
        for field in fields(policy)
        if getattr(policy, field.name) != getattr(_DEFAULT, field.name)
    }
    if policy.non_retryable_types:
        changed["non_retryable_types"] = list(policy.non_retryable_types)
    last: dict[str, JsonValue] = {"iwf.policy": changed}
    if waited > 0:
        last[_WAITED] = waited
    return [*operation.args, last]


class StepActivity:
    """The activity that runs the steps of an app in this process.

    Args:
        app: the app.
        steps: what makes the attempts.
        heart: what beats for them.
    """

    def __init__(self, app: AppDefinition, steps: StepRunner, heart: Heart) -> None:
        self._app = app
        self._steps = steps
        self._heart = heart
        self._running: set[asyncio.Task[Attempted]] = set()
        self._reports: set[asyncio.Task[None]] = set()

    @activity.defn(dynamic=True)
    async def run(self, args: Sequence[RawValue]) -> NoReturn:
        """Make one attempt and report it. The activity's type is the name of the step."""
        info = activity.info()
        converter = activity.payload_converter()
        values = [converter.from_payload(arg.payload) for arg in args]
        operation = _operation(info, values)
        if operation.name not in self._app.activities:
            raise self._strange(operation.name, info)
        await self._make(operation, info, _state(info, values))
        activity.raise_complete_async()

    async def hand_on(self) -> None:
        """End what runs, so that another worker makes the attempts anew."""
        for task in self._running:
            task.cancel(_STOPS)
        if self._running:
            await asyncio.wait(self._running)
        if self._reports:
            _, late = await asyncio.wait(self._reports, timeout=_REPORT_GRACE)
            for report in late:
                report.cancel()

    async def _make(self, operation: RunStep, info: activity.Info, state: AttemptState) -> None:
        """Make the attempt in a task of its own, beaten for until the server has its result."""
        loop = asyncio.get_running_loop()
        pulse = self._heart.begin(
            info.task_token,
            lost=lambda: loop.call_soon_threadsafe(task.cancel, _LOST),
            details=state.to_json(),
        )
        book = Book(self._heart, pulse, state)
        task = loop.create_task(self._attempt(operation, info, book, state))
        self._running.add(task)
        try:
            await _outlive(task)
            await self._report(pulse, _result_of(task))
        finally:
            self._running.discard(task)
            self._heart.end(pulse)

    async def _report(self, pulse: Pulse, result: object) -> None:
        """Report a result, whatever Temporal's core makes of the attempt meanwhile.

        The core would report from the event loop, which may be held up, and does not know of our
        beats: it might hold the attempt for dead, and pass on nothing.
        """
        report = asyncio.create_task(self._heart.report(pulse, result))
        self._reports.add(report)
        while not report.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({report})
        self._reports.discard(report)

    async def _attempt(
        self, operation: RunStep, info: activity.Info, book: Book, state: AttemptState
    ) -> Attempted:
        if _is_old(info):
            await book.save(state)  # the answer ends the attempt if others make it by now
        made = await self._steps.attempt(operation, self._run_info(info), book, state)
        if made.outcome is None:
            await book.save(made.state)
        return made

    def _run_info(self, info: activity.Info) -> RunInfo:
        return RunInfo(
            workflow_id=info.workflow_id or "",
            run_id=info.workflow_run_id or "",
            app=self._app.app,
            flow=info.workflow_type or "",
            args=(),
            started_at=info.scheduled_time,
        )

    def _strange(self, step: str, info: activity.Info) -> FailedError:
        known = ", ".join(repr(name) for name in self._app.activities) or "none"
        text = f"no step {step!r} in app {self._app.app!r} (steps: {known})"
        delay = min(_STRANGE_AFTER * 2.0 ** min(info.attempt - 1, 9), 60.0)
        log.warning("%s: run %r tries again in %g s", text, info.workflow_id, delay)
        return FailedError(ErrorData(text, Reason.FAILED), retry_in=delay, benign=True)


class Book:
    """The `AttemptBook` of one attempt: the heartbeat details of its activity."""

    def __init__(self, heart: Heart, pulse: Pulse, state: AttemptState) -> None:
        self._heart = heart
        self._pulse = pulse
        self._state = state

    async def load(self) -> AttemptState | None:
        """Return what is known."""
        return self._state

    async def save(self, state: AttemptState) -> None:
        """Send the state with a beat; each later beat sends it again."""
        self._state = state
        self._pulse.details = state.to_json()
        await self._heart.flush(self._pulse)


def _is_old(info: activity.Info) -> bool:
    """Whether the server may hold the attempt for dead already.

    It gives attempts to a process that is frozen, which finds them all when it wakes up.
    """
    silence = info.heartbeat_timeout
    return silence is not None and datetime.now(UTC) - info.started_time > silence


async def _outlive(task: asyncio.Task[Attempted]) -> None:
    """Wait for the task, and pass a cancel on to it, unless Temporal's core only gave it up."""
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            if not _given_up():
                task.cancel(_LOST)


def _given_up() -> bool:
    """Whether Temporal's core holds the attempt for dead: it hears nothing of our beats."""
    details = activity.cancellation_details()
    return details is not None and details.timed_out


def _result_of(task: asyncio.Task[Attempted]) -> object:
    try:
        return _result(task.result())
    except asyncio.CancelledError as cancelled:
        return _gone(str(cancelled))


def _gone(why: str) -> FailedError:
    """Tell Temporal why there is no result: this worker stops, or nobody waits for it."""
    text = why or _LOST
    retry = HAND_ON if why == _STOPS else None
    return FailedError(ErrorData(text, Reason.FAILED), retry_in=retry, benign=True)


def _result(made: Attempted) -> object:
    """Return the step's result, or the error that fails the attempt or the step."""
    if made.outcome is not None:
        error = made.outcome.error
        return made.outcome.value if error is None else FailedError(error, benign=made.benign)
    assert made.state.error is not None
    assert made.state.next_at is not None
    wait = max(made.state.next_at - time.time(), 0.0)
    return FailedError(made.state.error, retry_in=wait, benign=made.benign)


def _operation(info: activity.Info, values: list[Any]) -> RunStep:
    last: object = values[-1] if values else None
    if not isinstance(last, dict) or "iwf.policy" not in last:
        raise ValueError(f"activity {info.activity_type!r} was not asked for by iworkflow")
    given = cast("Mapping[str, Any]", last["iwf.policy"])
    digest = info.activity_id.partition("-")[2]
    return RunStep(info.activity_type, values[:-1], _policy(given), digest)


def _policy(given: Mapping[str, Any]) -> StepPolicy:
    known = {field.name for field in fields(StepPolicy)}
    values = {name: value for name, value in given.items() if name in known}
    if "non_retryable_types" in values:
        values["non_retryable_types"] = tuple(values["non_retryable_types"])
    return StepPolicy(**values)


def _state(info: activity.Info, values: Sequence[Any]) -> AttemptState:
    known: Any = info.heartbeat_details[0] if info.heartbeat_details else None
    if known is not None:
        return AttemptState.from_json(known)
    waited: float = values[-1].get(_WAITED, 0.0)
    return AttemptState(made=0, first_at=info.scheduled_time.timestamp() - waited)
