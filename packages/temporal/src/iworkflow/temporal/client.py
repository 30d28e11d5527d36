"""The client: what the port asks of an engine, on Temporal's own client."""

from __future__ import annotations

import asyncio
import builtins
import time
from datetime import timedelta
from itertools import islice
from typing import Any, cast
from uuid import uuid4

from temporalio.api.common.v1 import Payloads, WorkflowType
from temporalio.api.common.v1 import Priority as RawPriority
from temporalio.api.enums.v1 import (
    WorkflowIdConflictPolicy as RawConflictPolicy,
)
from temporalio.api.enums.v1 import (
    WorkflowIdReusePolicy as RawReusePolicy,
)
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import SignalWithStartWorkflowExecutionRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.common import Priority, WorkflowIDReusePolicy
from temporalio.exceptions import TerminatedError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from iworkflow.core.errors import FlowError
from iworkflow.core.flow.placement import WAITS
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import (
    FlowDescription,
    FlowFilter,
    Message,
    Outcome,
    StartReply,
    StartRequest,
    Status,
)
from iworkflow.temporal import errors, runs
from iworkflow.temporal.messages import signal_args, signal_name
from iworkflow.temporal.names import STATE
from iworkflow.temporal.settings import Settings, connect

Raw = WorkflowHandle[Any, Any]


class TemporalClientEngine:
    """A `port.ClientEngine` on one namespace. It belongs to one event loop."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @classmethod
    async def connect(cls, settings: Settings) -> TemporalClientEngine:
        """Connect.

        Raises:
            ConnectionError: the server cannot be reached, or refuses.
        """
        return cls(Link(await connect(settings)))

    async def start(self, request: StartRequest) -> StartReply:
        """Start the run, unless its id is taken."""
        return await self._link.start(request)

    async def signal(self, workflow_id: str, message: Message) -> None:
        """Send a message."""
        await self._link.signal(workflow_id, message)

    async def signal_with_start(self, request: StartRequest, message: Message) -> StartReply:
        """Start the run with the message, or send it to the running one."""
        return await self._link.signal_with_start(request, message)

    async def result(self, workflow_id: str) -> Outcome:
        """Wait for the outcome."""
        return await self._link.result(workflow_id)

    async def query(self, workflow_id: str, key: str) -> JsonValue:
        """Ask a worker for the last value of the key; it replays a run that has ended."""
        return await self._link.query(workflow_id, key)

    async def describe(self, workflow_id: str) -> FlowDescription:
        """Describe the run."""
        return await self._link.describe(workflow_id)

    async def list(self, filter: FlowFilter) -> list[FlowDescription]:
        """List the runs that fit, newest first."""
        return await self._link.list(filter)

    async def terminate(self, workflow_id: str, reason: str) -> None:
        """End the run now."""
        await self._link.terminate(workflow_id, reason)

    async def close(self) -> None:
        """Do nothing: a client of Temporal's has nothing to close."""


class Link:
    """What clients and workers ask one namespace for."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def start(self, request: StartRequest) -> StartReply:
        """Start the run durably, unless its id is taken."""
        try:
            await self.client.start_workflow(
                request.flow,
                args=list(request.args),
                id=request.id,
                task_queue=request.app,
                execution_timeout=_duration(request.timeout),
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                priority=Priority(priority_key=request.priority),
                memo=runs.memo_of(request),
            )
        except WorkflowAlreadyStartedError:
            return _reply(await self.describe(request.id), created=False)
        return StartReply(True, request.app, request.flow, Status.RUNNING)

    async def signal(self, workflow_id: str, message: Message) -> None:
        """Send a message.

        Raises:
            FlowError: the run is missing or finished.
        """
        name, args = signal_name(message.topic), signal_args(message, time.time())
        try:
            await self._handle(workflow_id).signal(name, args=args)
        except RPCError as error:
            if errors.has_ended(error):
                raise errors.finished(workflow_id) from None
            raise _turned(workflow_id, error) from error

    async def signal_with_start(self, request: StartRequest, message: Message) -> StartReply:
        """Start the run with the message, or send it to the running one.

        A run that is there already is looked at first: Temporal would signal any.
        """
        while True:
            try:
                there = await self.describe(request.id)
            except FlowError:
                return await self._signal_with_start(request, message)
            mine = (there.app, there.flow) == (request.app, request.flow)
            if not mine or there.status is not Status.RUNNING:
                return _reply(there, created=False)
            try:
                await self.signal(request.id, message)
            except FlowError:
                continue
            return _reply(there, created=False)

    async def _signal_with_start(self, request: StartRequest, message: Message) -> StartReply:
        raw = await self._raw_start(request, message)
        try:
            reply = await self.client.workflow_service.signal_with_start_workflow_execution(
                raw, retry=True
            )
        except RPCError as error:
            if error.status is not RPCStatusCode.ALREADY_EXISTS:
                raise
            return _reply(await self.describe(request.id), created=False)
        return StartReply(reply.started, request.app, request.flow, Status.RUNNING)

    async def _raw_start(
        self, request: StartRequest, message: Message
    ) -> SignalWithStartWorkflowExecutionRequest:
        """Build the request: Temporal's own call does not tell whether it started the run."""
        raw = SignalWithStartWorkflowExecutionRequest(
            namespace=self.client.namespace,
            workflow_id=request.id,
            workflow_type=WorkflowType(name=request.flow),
            task_queue=TaskQueue(name=request.app),
            input=await self._payloads(list(request.args)),
            identity=self.client.identity,
            request_id=str(uuid4()),
            signal_name=signal_name(message.topic),
            signal_input=await self._payloads(signal_args(message, time.time())),
            workflow_id_reuse_policy=RawReusePolicy.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
            workflow_id_conflict_policy=(
                RawConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
            ),
            priority=RawPriority(priority_key=request.priority),
        )
        for name, value in runs.memo_of(request).items():
            (payload,) = (await self._payloads([value])).payloads
            raw.memo.fields[name].CopyFrom(payload)
        timeout = _duration(request.timeout)
        if timeout is not None:
            raw.workflow_execution_timeout.FromTimedelta(timeout)
        return raw

    async def _payloads(self, values: builtins.list[JsonValue]) -> Payloads:
        return Payloads(payloads=await self.client.data_converter.encode(values))

    async def result(self, workflow_id: str) -> Outcome:
        """Wait for the outcome of a run, also while the server is away."""
        while True:
            try:
                return Outcome(await self._handle(workflow_id).result())
            except WorkflowFailureError as error:
                if isinstance(error.cause, TerminatedError):
                    return await self._terminated(workflow_id, error.cause)
                return errors.run_outcome(workflow_id, error.cause)
            except RPCError as error:
                if error.status is not RPCStatusCode.UNAVAILABLE:
                    raise _turned(workflow_id, error) from error
                await asyncio.sleep(_RESULT_AGAIN)

    async def _terminated(self, workflow_id: str, cause: TerminatedError) -> Outcome:
        there = await self.describe(workflow_id)
        if there.status is Status.TIMED_OUT:
            return errors.timed_out(workflow_id)
        return errors.run_outcome(workflow_id, cause)

    async def query(self, workflow_id: str, key: str) -> JsonValue:
        """Ask for the last value of the key.

        The answer comes with a workflow task. One that failed, perhaps on a worker that must leave
        the run to others, is tried again: the query waits for that.

        Raises:
            FlowError: the run is missing.
            RuntimeError: no worker of the run's app answers, or its code does not fit the run.
        """
        until = time.monotonic() + _QUERY_PATIENCE
        while True:
            try:
                answer = await self._handle(workflow_id).query(STATE, key, rpc_timeout=_QUERY_TIME)
                return cast("JsonValue", answer)
            except WorkflowQueryFailedError as error:
                if WAITS not in error.message or time.monotonic() > until:
                    text = f"flow {workflow_id!r} cannot be asked: {error.message}"
                    raise RuntimeError(text) from error
            except RPCError as error:
                if error.status not in _NO_WORKER:
                    raise _turned(workflow_id, error) from error
                there = await self._raw(workflow_id)
                attempt = there.raw_description.pending_workflow_task.attempt
                if attempt < 2 or time.monotonic() > until:
                    raise RuntimeError(
                        f"flow {workflow_id!r} cannot be asked: no worker of app "
                        f"{runs.description_of(there).app!r} answers; start one, or see their log"
                    ) from error
            await asyncio.sleep(_QUERY_AGAIN)

    async def describe(self, workflow_id: str) -> FlowDescription:
        """Describe a run.

        Raises:
            FlowError: the run is missing.
        """
        return runs.description_of(await self._raw(workflow_id))

    async def list(self, filter: FlowFilter) -> builtins.list[FlowDescription]:
        """List the runs that fit, newest first."""
        listed = [
            run
            async for run in self.client.list_workflows(runs.query_of(filter))
            if run.id.startswith(filter.id_prefix or "")
        ]
        listed.sort(key=lambda run: (run.start_time, run.id), reverse=True)
        rest = iter(listed if filter.status is not None else listed[: filter.limit])
        found: builtins.list[FlowDescription] = []
        while len(found) < filter.limit and (some := [*islice(rest, _AT_ONCE)]):
            described = await asyncio.gather(*map(self._described, some))
            found += [run for run in described if filter.status in (None, run.status)]
        return found[: filter.limit]

    async def _described(self, run: WorkflowExecution) -> FlowDescription:
        return runs.description_of(await self._raw(run.id) if runs.is_unclear(run) else run)

    async def terminate(self, workflow_id: str, reason: str) -> None:
        """End a run; a finished one stays as it is."""
        try:
            await self._handle(workflow_id).terminate(reason=reason or None)
        except RPCError as error:
            if not errors.has_ended(error):
                raise _turned(workflow_id, error) from error

    async def _raw(self, workflow_id: str) -> WorkflowExecutionDescription:
        try:
            return await self._handle(workflow_id).describe()
        except RPCError as error:
            raise _turned(workflow_id, error) from error

    def _handle(self, workflow_id: str) -> Raw:
        return self.client.get_workflow_handle(workflow_id)


_AT_ONCE = 10
_RESULT_AGAIN = 1.0
_QUERY_TIME = timedelta(seconds=10)
_QUERY_PATIENCE = 40.0
_QUERY_AGAIN = 0.2
_NO_WORKER = (
    RPCStatusCode.CANCELLED,  # what Temporal's client makes of its own timeout
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.FAILED_PRECONDITION,
)


def _turned(workflow_id: str, error: RPCError) -> Exception:
    return errors.not_found(workflow_id) if errors.is_missing(error) else error


def _reply(there: FlowDescription, *, created: bool) -> StartReply:
    return StartReply(created, there.app, there.flow, there.status)


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
