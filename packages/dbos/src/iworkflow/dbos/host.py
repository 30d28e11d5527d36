"""One dispatch of one run on DBOS.

Every operation is a step that was reserved when the flow issued it, so its place does not depend on
what finishes first; a reservation that is never run leaves a gap. The step's body carries the
operation out and returns an envelope, so nothing is raised through DBOS. What an earlier dispatch
recorded is read before the first operation and outside of the workflow's context, where DBOS would
record the reading itself.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from dbos import DBOS, StepReservation
from iworkflow.core.errors import ErrorData, FlowError
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
from iworkflow.core.steps import StepRunner
from iworkflow.dbos import errors
from iworkflow.dbos.attempts import Book
from iworkflow.dbos.client import Link
from iworkflow.dbos.dispatch import Dispatch
from iworkflow.dbos.envelope import ORDER, Envelope, pack, pack_order, unpack
from iworkflow.dbos.messages import Inbox

log = logging.getLogger("iworkflow.dbos")

_OWNED = """SELECT 1 FROM dbos.workflow_status
    WHERE workflow_uuid = $1 AND status = 'PENDING' AND owner_xid = $2"""


class DbosHost:
    """A `port.Host`. It must be made inside the workflow whose dispatch it is."""

    orders = True
    replaying = False

    def __init__(self, link: Link, steps: StepRunner, dispatch: Dispatch) -> None:
        self._link = link
        self._steps = steps
        self._dispatch = dispatch
        self._context = contextvars.copy_context()
        self._reserved: dict[int, StepReservation] = {}
        self._inbox = Inbox(link.database, link.wakeups, dispatch.owner)
        self._recording: set[asyncio.Task[Envelope]] = set()
        self.leaving = False
        """Whether the dispatch ends without the flow: a stop, a terminate, a lost run."""
        self.untidy = dispatch.again
        """Whether rows of ours may be left when the run ends."""

    @property
    def info(self) -> RunInfo:
        """The facts of the run."""
        return self._dispatch.info

    @property
    def history(self) -> Mapping[int, Record]:
        """What the run recorded before this dispatch, by place."""
        return self._dispatch.history

    @property
    def recording(self) -> int:
        """How many operations are carried out and on their way into the history."""
        return len(self._recording)

    def now(self) -> float:
        """Return the wall time."""
        return time.time()

    def reserve(self) -> int:
        """Draw the next place."""
        reservation = self._context.run(DBOS.reserve_step)
        self._reserved[reservation.step_id] = reservation
        return reservation.step_id

    def parked(self, why: str) -> None:
        """Do nothing: the row stays `PENDING`, and whoever stops this worker hands it on."""

    async def perform(self, place: int, operation: Operation) -> Completion:
        """Carry the operation out and record it.

        Raises:
            LostRunError: another execution owns the run by now.
        """
        if isinstance(operation, Sleep):
            return await self._sleep(place, operation)
        try:
            envelope = await self._record(
                place, _step_name(operation), lambda: self._carry_out(place, operation)
            )
        except asyncio.CancelledError:
            if isinstance(operation, Receive) and not self.leaving:
                await asyncio.shield(self._inbox.release(place))
            raise
        finally:
            self._inbox.forget(place)
        return unpack(envelope).completion

    async def look(self, place: int, operation: Receive) -> bool:
        """Tell whether a `Receive` that is being performed has, or now gets, a message."""
        return await self._inbox.look(place)

    async def record_order(self, place: int, order: Sequence[int]) -> None:
        """Record an order of deliveries."""

        async def body() -> Envelope:
            return pack_order(order, time.time())

        await self._record(place, f"iwf.{ORDER}", body)

    async def _sleep(self, place: int, operation: Sleep) -> Completion:
        """Record the end of the sleep at its start, then wait for it outside of the step."""
        known = self.history.get(place)
        if known is None:
            until = time.time() + operation.seconds

            async def body() -> Envelope:
                return pack(operation, Outcome(), until)

            known = unpack(await self._record(place, _step_name(operation), body))
        await asyncio.sleep(max(0.0, known.completion.at - time.time()))
        return known.completion

    async def _record(
        self, place: int, name: str, body: Callable[[], Awaitable[Envelope]]
    ) -> Envelope:
        """Run the reserved step. A cancel ends the body; a record that is being written, no.

        What the body raises is not recorded: performed again, the operation may succeed.
        """
        reservation = self._reserved.pop(place)

        async def step() -> Envelope:
            try:
                envelope = await body()
            except Exception as error:
                raise errors.Unrecorded(error) from None
            self._recording.add(task)
            return envelope

        task: asyncio.Task[Envelope] = asyncio.create_task(
            cast("Any", reservation.run_async({"name": name}, step)),
            context=self._context.copy(),
        )
        task.add_done_callback(self._recording.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task not in self._recording:
                task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()
            raise
        except errors.Unrecorded as unrecorded:
            raise unrecorded.error from unrecorded.error.__cause__
        except BaseException as error:
            if errors.is_lost(error):
                raise errors.LostRunError(self.info.workflow_id) from None
            raise

    async def _carry_out(self, place: int, operation: Operation) -> Envelope:
        if isinstance(operation, Receive):
            self.untidy = True
            taken = await self._inbox.take(place, operation)
            return pack(operation, taken.outcome, taken.at)
        return pack(operation, await self._outcome(place, operation), time.time())

    async def _outcome(self, place: int, operation: Operation) -> Outcome:
        try:
            match operation:
                case RunStep():
                    return await self._steps.run(operation, self.info, self._book(place))
                case StartChild():
                    return await self._start_child(place, operation)
                case AwaitRun():
                    return await self._link.result(operation.name)
                case SendSignal():
                    return await self._send(place, operation)
                case SetState():
                    await DBOS.set_event_async(operation.name, operation.value)
                case ReadClock() | Sleep() | Receive():
                    pass
        except FlowError as error:
            return Outcome(error=_data(error))
        return Outcome()

    def _book(self, place: int) -> Book:
        earlier = self._dispatch.attempts.get(place)
        return Book(self._link.database, self._dispatch.owner, place, earlier, self._wrote)

    def _wrote(self) -> None:
        self.untidy = True

    async def _start_child(self, place: int, operation: StartChild) -> Outcome:
        await self._check_owned()
        reply = await self._link.start(operation.request, origin=self._name(place))
        return Outcome(
            {
                "created": reply.created,
                "app": reply.app,
                "flow": reply.flow,
                "status": str(reply.status),
            }
        )

    async def _send(self, place: int, operation: SendSignal) -> Outcome:
        """Send with a key of this place: performed again, it is delivered once.

        What was sent before a crash is not refused because the target has ended since.
        """
        message = operation.message
        named = Message(message.topic, message.value, message.id or self._name(place))
        again = self._dispatch.again
        if not (again and await self._link.was_sent(operation.workflow_id, named)):
            await self._link.expect_running(operation.workflow_id)
            await self._link.send(operation.workflow_id, named, via=_send)
        return Outcome()

    async def _check_owned(self) -> None:
        owner = self._dispatch.owner
        if await self._link.database.row(_OWNED, owner.workflow_id, owner.token) is None:
            raise errors.LostRunError(owner.workflow_id)

    def _name(self, place: int) -> str:
        return f"{self.info.run_id}-{place:09d}"


async def _send(workflow_id: str, value: JsonValue, topic: str, key: str) -> None:
    """Send from within a step: DBOS lets only the owner of the run do that."""
    await DBOS.send_async(workflow_id, value, topic, idempotency_key=key)


def _step_name(operation: Operation) -> str:
    return operation.name if isinstance(operation, RunStep) else f"iwf.{operation.kind}"


def _data(error: FlowError) -> ErrorData:
    return ErrorData(error.message, error.reason, error.type, error.details, error.exhausted)
