"""One dispatch of one run on Temporal, inside of its workflow.

Temporal replays what the workflow asked it for and orders the completions itself, so there is no
history to read and no order to record. A step is an activity whose id is `<place>-<digest>`: code
that asks for something else at a place does not fit the recorded id, and Temporal refuses it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, cast

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)

from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import (
    AwaitRun,
    Completion,
    Message,
    Operation,
    Outcome,
    ReadClock,
    Receive,
    Record,
    RunInfo,
    RunStep,
    SendSignal,
    SetState,
    Sleep,
    StartChild,
)
from iworkflow.temporal import errors, pending, runs
from iworkflow.temporal.attempts import step_args
from iworkflow.temporal.envelope import outcome_from_json
from iworkflow.temporal.load import Load
from iworkflow.temporal.messages import Inbox, signal_args, signal_name
from iworkflow.temporal.names import DESCRIBE, RESULT, pool_queue, service_queue
from iworkflow.temporal.parking import Asked
from iworkflow.temporal.pending import Pending
from iworkflow.temporal.settings import Tuning

T = TypeVar("T")

log = logging.getLogger("iworkflow.temporal")

LONG_HISTORY = 10_000
"""From how many events on a run is warned about; Temporal ends it at 51,200."""

_UNLIMITED = timedelta(days=3650)
# What the server does by itself: when a worker died. Each other wait is decided in the activity.
_AGAIN = RetryPolicy(
    initial_interval=timedelta(seconds=0.2),
    backoff_coefficient=1.0,
    maximum_interval=timedelta(seconds=0.2),
)


class TemporalHost:
    """A `port.Host`. It must be made inside the workflow whose dispatch it is."""

    orders = False
    history: Mapping[int, Record] = {}

    def __init__(self, info: RunInfo, tuning: Tuning, inbox: Inbox, asked: Asked) -> None:
        self._info = info
        self._tuning = tuning
        self._inbox = inbox
        self._asked = asked
        self._load = Load(asked)
        self._loop = asyncio.get_running_loop()
        self._place = 0
        self._children: dict[str, workflow.ChildWorkflowHandle[Any, Any]] = {}
        self._activities = Pending(partial(self._warn_of_many, "steps and waits for other runs"))
        self._starts = Pending(partial(self._warn_of_many, "children"))
        self._signals = Pending(partial(self._warn_of_many, "messages to others"))
        self._warned: set[str] = set()
        self.state: dict[str, JsonValue] = {}
        """What a query of a key answers."""

    @property
    def info(self) -> RunInfo:
        """The facts of the run."""
        return self._info

    @property
    def replaying(self) -> bool:
        """Whether Temporal replays the workflow."""
        return self._outside(workflow.unsafe.is_replaying)

    def now(self) -> float:
        """Return the time of the server, as of the workflow task."""
        return self._outside(workflow.time)

    def reserve(self) -> int:
        """Draw the next place."""
        self._place += 1
        return self._place

    def parked(self, why: str) -> None:
        """Fail the workflow task, so that Temporal tries it again: the run stays `running`.

        A run that just waited would not hear of a worker whose code fits.

        Raises:
            ParkedError: always.
        """
        raise errors.ParkedError(why)

    def failed(self) -> None:
        """Begin nothing more: core lets a start or a message finish, also once the flow failed."""
        for sort in (self._activities, self._starts, self._signals):
            sort.drop()

    async def look(self, place: int, operation: Receive) -> bool:
        """Find nothing: it is asked only where core orders the completions."""
        return False

    async def ending(self, value: JsonValue) -> None:
        """Return once the outcome can be handed over."""
        await self._load.add_outcome(self._place, value)

    async def record_order(self, place: int, order: Sequence[int]) -> None:
        """Do nothing: the history orders completions."""

    async def perform(self, place: int, operation: Operation) -> Completion:
        """Carry the operation out; Temporal records it."""
        self._check_length()
        begun = workflow.time()
        try:
            async with self._turn(operation):
                await self._load.add(place, operation)
                self._asked.add(place, operation)
                return await self._perform(place, operation, begun)
        finally:
            if cast("asyncio.Task[object]", asyncio.current_task()).cancelling():
                self._asked.drop(place)

    def _turn(self, operation: Operation) -> AbstractAsyncContextManager[None]:
        """Return what to hold while the operation is under way."""
        match operation:
            case RunStep():
                return self._activities
            case StartChild():
                return self._starts
            case SendSignal() if operation.workflow_id != self.info.workflow_id:
                return self._signals
            case _:
                return nullcontext()

    async def _perform(self, place: int, operation: Operation, begun: float) -> Completion:
        if isinstance(operation, Receive):
            return await self._take(operation)
        outcome = await self._outcome(place, operation, begun)
        at = workflow.time()
        if isinstance(operation, Sleep):
            at = max(at, begun + operation.seconds)
        return Completion(outcome, at)

    async def _outcome(self, place: int, operation: Operation, begun: float) -> Outcome:
        match operation:
            case RunStep():
                return await self._run_step(place, operation, workflow.time() - begun)
            case StartChild():
                return await self._start_child(place, operation)
            case AwaitRun():
                return await self._await_run(place, operation.name)
            case SendSignal():
                return await self._send(place, operation)
            case Sleep():
                await asyncio.sleep(operation.seconds)
            case SetState():
                self.state[operation.name] = operation.value
            case ReadClock() | Receive():
                pass
        return Outcome()

    async def _take(self, operation: Receive) -> Completion:
        taken = await self._inbox.take(operation.name, operation.timeout)
        at = workflow.time()
        return Completion(taken.outcome, at if taken.sent is None else min(at, taken.sent))

    async def _run_step(self, place: int, operation: RunStep, waited: float) -> Outcome:
        policy = operation.policy
        total = policy.total_timeout
        try:
            value = await workflow.execute_activity(
                operation.name,
                args=step_args(operation, waited),
                activity_id=f"{place}-{operation.digest}",
                task_queue=pool_queue(self.info.app, policy.pool),
                start_to_close_timeout=_UNLIMITED,
                schedule_to_start_timeout=None if total is None else _duration(total - waited),
                heartbeat_timeout=_duration(self._tuning.silent_after),
                retry_policy=_AGAIN,
                cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
                priority=Priority(priority_key=policy.priority),
            )
        except ActivityError as error:
            return errors.step_outcome(error.cause, policy)
        return Outcome(value)

    async def _start_child(self, place: int, operation: StartChild) -> Outcome:
        request = operation.request
        try:
            handle = await workflow.start_child_workflow(
                request.flow,
                args=list(request.args),
                id=request.id,
                task_queue=request.app,
                cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                execution_timeout=None if request.timeout is None else _duration(request.timeout),
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                priority=Priority(priority_key=request.priority),
                memo=runs.memo_of(request),
            )
        except WorkflowAlreadyStartedError:
            return await self._serve(DESCRIBE, place, request.id)
        handle.add_done_callback(_retrieve)
        self._starts.keep(handle)
        self._children[request.id] = handle
        reply: dict[str, JsonValue] = {
            "created": True,
            "app": request.app,
            "flow": request.flow,
            "status": "running",
        }
        return Outcome(reply)

    async def _await_run(self, place: int, workflow_id: str) -> Outcome:
        child = self._children.get(workflow_id)
        if child is None:
            return await self._serve(RESULT, place, workflow_id)
        try:
            # A cancel of the wait must not reach the child.
            return Outcome(await asyncio.shield(child))
        except ChildWorkflowError as error:
            if isinstance(error.cause, TerminatedError):
                # Whether that was before its deadline, the child's own history tells.
                return await self._serve(RESULT, place, workflow_id)
            return errors.run_outcome(workflow_id, error.cause)

    async def _serve(self, service: str, place: int, workflow_id: str) -> Outcome:
        """Ask a client about a run that is not one's child."""
        async with self._activities:
            envelope = await workflow.execute_activity(
                service,
                workflow_id,
                activity_id=f"{place}",
                task_queue=service_queue(self.info.app),
                start_to_close_timeout=_UNLIMITED,
                heartbeat_timeout=_duration(self._tuning.silent_after),
                retry_policy=_AGAIN,
                cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            )
        return outcome_from_json(cast("Mapping[str, Any]", envelope))

    async def _send(self, place: int, operation: SendSignal) -> Outcome:
        sent = operation.message
        named = Message(sent.topic, sent.value, sent.id or f"{self.info.run_id}-{place}")
        if operation.workflow_id == self.info.workflow_id:
            # Temporal lets no run signal itself; what it replays puts the message there again.
            self._inbox.put(named, workflow.time())
            return Outcome()
        target = workflow.get_external_workflow_handle(operation.workflow_id)
        try:
            await target.signal(signal_name(sent.topic), args=signal_args(named, workflow.time()))
        except ApplicationError as error:
            return errors.unsent(operation.workflow_id, error)
        return Outcome()

    def _check_length(self) -> None:
        length = workflow.info().get_current_history_length()
        if length >= LONG_HISTORY:
            self._warn(
                "flow %r has %d events of history and Temporal ends a run at 51,200; "
                "move parts of it into children, or end it and start its successor",
                length,
            )

    def _warn_of_many(self, sort: str) -> None:
        self._warn(
            f"flow %r has %d {sort} under way and Temporal takes no more of a run; each further "
            "one waits until one of them ends; ask for fewer at once, or in several runs",
            pending.MOST,
        )

    def _warn(self, text: str, number: int) -> None:
        """Warn, once a run."""
        if text in self._warned:
            return
        self._warned.add(text)
        if not workflow.unsafe.is_replaying():
            log.warning(text, self.info.workflow_id, number)

    def _outside(self, call: Callable[[], T]) -> T:
        """Call with the workflow's own loop as the running one; inside, it is the flow's."""
        inside = asyncio._get_running_loop()
        asyncio._set_running_loop(self._loop)
        try:
            return call()
        finally:
            asyncio._set_running_loop(inside)


def _duration(seconds: float) -> timedelta:
    # Temporal takes zero for no limit.
    return min(timedelta(seconds=max(min(seconds, 3e8), 0.001)), _UNLIMITED)


def _retrieve(handle: asyncio.Future[Any]) -> None:
    """Take note of an outcome that nobody may ever wait for."""
    if not handle.cancelled():
        handle.exception()
