"""One attempt of a step, as an activity.

Temporal waits between the attempts and finds the next worker; whether one follows, and when, is
decided here by core. How far a step is (`AttemptState`: the attempts that failed, what it
reported last) lies in the activity's heartbeat details, so it outlives the worker. A worker that
died made no attempt that counts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any, cast

from temporalio import activity
from temporalio.common import RawValue

from iworkflow.core.definition import AppDefinition
from iworkflow.core.errors import ErrorData, Reason
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.options import StepPolicy
from iworkflow.core.port import RunInfo, RunStep
from iworkflow.core.steps import Attempted, AttemptState, StepRunner
from iworkflow.temporal.errors import FailedError

log = logging.getLogger("iworkflow.temporal")

BEAT = 0.6
"""Seconds between two beats: a cancel is told with the answer to one."""

HAND_ON = 0.001
_STRANGE_AFTER = 2.0
_DEFAULT = StepPolicy()


def step_args(operation: RunStep) -> list[JsonValue]:
    """Return the arguments of the activity: the step's own, then its policy."""
    policy = operation.policy
    changed = {
        field.name: _plain(getattr(policy, field.name))
        for field in fields(policy)
        if getattr(policy, field.name) != getattr(_DEFAULT, field.name)
    }
    return [*operation.args, {"iwf.policy": changed}]


class StepActivity:
    """The activity that runs the steps of an app in this process.

    Args:
        app: the app.
        steps: what makes the attempts.
    """

    def __init__(self, app: AppDefinition, steps: StepRunner) -> None:
        self._app = app
        self._steps = steps
        self._running: set[asyncio.Task[Any]] = set()
        self._handed_on: set[asyncio.Task[Any]] = set()

    @activity.defn(dynamic=True)
    async def run(self, args: Sequence[RawValue]) -> object:
        """Make one attempt. The activity's type is the name of the step."""
        info = activity.info()
        converter = activity.payload_converter()
        operation = _operation(info, [converter.from_payload(arg.payload) for arg in args])
        if operation.name not in self._app.activities:
            raise self._strange(operation.name, info)
        state = _state(info)
        async with self._entered() as task:
            try:
                made = await self._attempt(operation, self._run_info(info), state)
            except asyncio.CancelledError:
                raise self._cancelled(task) from None
        return _result(made)

    async def hand_on(self) -> None:
        """End what runs, so that another worker makes the attempts anew."""
        self._handed_on |= self._running
        for task in self._running:
            task.cancel("the worker stops")
        if self._running:
            await asyncio.wait(self._running)

    async def _attempt(self, operation: RunStep, run: RunInfo, state: AttemptState) -> Attempted:
        book = Book(state)
        beats = asyncio.create_task(book.beat())
        try:
            made = await self._steps.attempt(operation, run, book, state)
        finally:
            beats.cancel()
        if made.outcome is None:
            await book.save(made.state)
        return made

    @asynccontextmanager
    async def _entered(self) -> AsyncGenerator[asyncio.Task[Any]]:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            yield task
        finally:
            self._running.discard(task)
            self._handed_on.discard(task)

    def _cancelled(self, task: asyncio.Task[Any]) -> BaseException:
        """Tell Temporal why the attempt ended: it was asked to, or this worker stops."""
        if task in self._handed_on:
            text = "the worker stops; another one makes the attempt"
            return FailedError(ErrorData(text, Reason.FAILED), retry_in=HAND_ON, benign=True)
        details = activity.cancellation_details()
        if details is not None and details.cancel_requested:
            return asyncio.CancelledError("cancelled")
        text = "the run is over, or another worker makes the attempt"
        return FailedError(ErrorData(text, Reason.FAILED), benign=True)

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

    def __init__(self, state: AttemptState) -> None:
        self._state = state

    async def load(self) -> AttemptState | None:
        """Return what is known."""
        return self._state

    async def save(self, state: AttemptState) -> None:
        """Send the state with a heartbeat; the last one is sent before the activity ends."""
        self._state = state
        activity.heartbeat(state.to_json())

    async def beat(self) -> None:
        """Beat for as long as the attempt runs or waits for a slot."""
        while True:
            await asyncio.sleep(BEAT)
            activity.heartbeat(self._state.to_json())


def _result(made: Attempted) -> object:
    if made.outcome is None:
        assert made.state.error is not None
        assert made.state.next_at is not None
        wait = max(made.state.next_at - time.time(), 0.0)
        raise FailedError(made.state.error, retry_in=wait, benign=made.benign)
    if made.outcome.error is not None:
        raise FailedError(made.outcome.error, benign=made.benign)
    return made.outcome.value


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


def _state(info: activity.Info) -> AttemptState:
    known: Any = info.heartbeat_details[0] if info.heartbeat_details else None
    if known is not None:
        return AttemptState.from_json(known)
    return AttemptState(made=0, first_at=info.scheduled_time.timestamp())


def _plain(value: Any) -> JsonValue:
    listed = list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
    return cast("JsonValue", listed)
