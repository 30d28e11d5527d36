"""One dispatch of one run on the memory engine.

Each operation goes through the same moments: before its effect, after it, after its record. A
host that is dropped (`alive` is false: a crash, a stop, a lost run) writes nothing more, at
whichever moment it stood.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, cast

from iworkflow.core.codec import dumps, loads
from iworkflow.core.errors import ErrorData, FlowError
from iworkflow.core.memory.store import (
    MemoryStore,
    Run,
    StoredMessage,
    thaw_outcome,
)
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
from iworkflow.core.steps import AttemptState

if TYPE_CHECKING:
    from iworkflow.core.jsonvalue import JsonValue


class Moment(Enum):
    """Where an operation stands."""

    BEFORE = "before"
    """Nothing of it happened."""
    EFFECT = "effect"
    """Its effect happened, its record is not written."""
    RECORD = "record"
    """Its record is written, the flow has not heard of it."""


performing: ContextVar[tuple[int, RunStep]] = ContextVar("iworkflow_memory_performing")
"""The step that runs here and its place; steps inherit it."""


class Stage(Protocol):
    """Watches the operations of a host and may hold them; for the testing kit."""

    async def reached(
        self, run: Run, place: int, operation: Operation | Mark, moment: Moment
    ) -> None:
        """Return when the operation may go on."""
        ...


class StepPerformer(Protocol):
    """What runs the steps: `StepRunner`."""

    async def run(self, operation: RunStep, run: RunInfo, book: MemoryBook) -> Outcome:
        """Run all attempts of a step."""
        ...


class MemoryHost:
    """A `port.Host` over a run of a store.

    Args:
        store: where the run lies.
        run: the run.
        steps: what runs its steps.
        stage: what may hold its operations.
    """

    orders = True
    replaying = False

    def __init__(
        self, store: MemoryStore, run: Run, steps: StepPerformer, stage: Stage | None = None
    ) -> None:
        self._store = store
        self._run = run
        self._steps = steps
        self._stage = stage
        self._claims: dict[int, StoredMessage] = {}
        self._place = 0
        self._info = run.info()
        self._history = {place: record.thaw() for place, record in run.history.items()}
        self.in_flight: dict[int, Operation] = {}
        self._staged: set[asyncio.Task[Any]] = set()
        self.alive = True
        self.parked_why: str | None = None

    @property
    def info(self) -> RunInfo:
        """The facts of the run."""
        return self._info

    @property
    def history(self) -> Mapping[int, Record]:
        """What the run recorded before this dispatch, by place."""
        return self._history

    def now(self) -> float:
        """Return the time of the store."""
        return self._store.clock.now()

    def reserve(self) -> int:
        """Draw the next place."""
        self._place += 1
        return self._place

    def parked(self, why: str) -> None:
        """Keep the reason for whoever asks."""
        self.parked_why = why

    async def look(self, place: int, operation: Receive) -> bool:
        """Tell whether the operation has, or now gets, a message."""
        taken = place in self._run.history or place in self._claims
        return taken or self._unclaimed(operation.name, None) is not None

    async def record_order(self, place: int, order: Sequence[int]) -> None:
        """Record an order of deliveries."""
        await self._reached(place, _ORDER, Moment.BEFORE)
        self._store.record_order(self._run, place, tuple(order))
        await self._reached(place, _ORDER, Moment.RECORD)

    async def perform(self, place: int, operation: Operation) -> Completion:
        """Carry the operation out and record it."""
        known = self._run.history.get(place)
        if known is not None and not isinstance(operation, Sleep):
            return known.thaw().completion
        await self._reached(place, operation, Moment.BEFORE)
        self.in_flight[place] = operation
        try:
            outcome, at = await self._carry_out(place, operation)
            await self._reached(place, operation, Moment.EFFECT)
            return await self._record(place, operation, Completion(outcome, at))
        finally:
            self._claims.pop(place, None)
            self.in_flight.pop(place, None)

    async def ending(self) -> None:
        """Stand between the flow's return and the record of its outcome."""
        await self._reached(0, _END, Moment.BEFORE)

    async def _record(self, place: int, operation: Operation, done: Completion) -> Completion:
        claim = self._claims.pop(place, None)
        if claim is not None:
            self._run.inbox[operation.name].remove(claim)
        if place not in self._run.history:
            self._store.record(self._run, place, operation, done)
        self.in_flight.pop(place, None)
        await self._reached(place, operation, Moment.RECORD)
        return self._run.history[place].thaw().completion

    def drop(self) -> None:
        """Write nothing more, and end what the stage holds."""
        self.alive = False
        for task in self._staged:
            task.cancel()

    async def _reached(self, place: int, operation: Operation | Mark, moment: Moment) -> None:
        if self.alive and self._stage is not None:
            await self._on_stage(self._stage, place, operation, moment)
        self._check_alive()

    async def _on_stage(
        self, stage: Stage, place: int, operation: Operation | Mark, moment: Moment
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._staged.add(task)
        try:
            await stage.reached(self._run, place, operation, moment)
        finally:
            self._staged.discard(task)

    def _check_alive(self) -> None:
        if not self.alive:
            raise asyncio.CancelledError("the dispatch is over")

    async def _carry_out(self, place: int, operation: Operation) -> tuple[Outcome, float]:
        match operation:
            case RunStep():
                performing.set((place, operation))
                book = MemoryBook(self, self._run, place)
                return await self._steps.run(operation, self._info, book), self.now()
            case StartChild():
                return self._start_child(place, operation), self.now()
            case AwaitRun():
                return await self._await_run(operation.name), self.now()
            case Receive():
                return await self._receive(place, operation)
            case SendSignal():
                return self._send(place, operation), self.now()
            case Sleep():
                return await self._sleep(place, operation)
            case SetState():
                self._run.state[operation.name] = dumps(operation.value)
                return Outcome(), self.now()
            case ReadClock():
                return Outcome(), self.now()

    def _start_child(self, place: int, operation: StartChild) -> Outcome:
        reply = self._store.start(operation.request, starter=self._name(place))
        return Outcome(
            {
                "created": reply.created,
                "app": reply.app,
                "flow": reply.flow,
                "status": str(reply.status),
            }
        )

    async def _await_run(self, workflow_id: str) -> Outcome:
        try:
            return await outcome_of(self._store, workflow_id)
        except FlowError as error:
            return Outcome(error=_data(error))

    def _send(self, place: int, operation: SendSignal) -> Outcome:
        message = operation.message
        identity = message.id if message.id is not None else self._name(place)
        try:
            self._store.deliver(
                operation.workflow_id, Message(message.topic, message.value, identity)
            )
        except FlowError as error:
            return Outcome(error=_data(error))
        return Outcome()

    async def _receive(self, place: int, operation: Receive) -> tuple[Outcome, float]:
        until = None
        if operation.timeout is not None:
            until = self._run.begun.setdefault(place, self.now()) + operation.timeout
        while True:
            message = self._claim(place, operation.name, until)
            if message is not None:
                return Outcome({"message": cast("JsonValue", loads(message.value))}), message.at
            if until is not None and self.now() >= until:
                return Outcome(), until
            await self._run.arrived.wait(self._store.clock, until)
            self._check_alive()

    def _claim(self, place: int, topic: str, until: float | None) -> StoredMessage | None:
        message = self._unclaimed(topic, until)
        if message is not None:
            self._claims[place] = message
        return message

    def _unclaimed(self, topic: str, until: float | None) -> StoredMessage | None:
        taken = {claim.number for claim in self._claims.values()}
        for message in self._run.inbox.get(topic, ()):
            if message.number not in taken and (until is None or message.at <= until):
                return message
        return None

    async def _sleep(self, place: int, operation: Sleep) -> tuple[Outcome, float]:
        known = self._run.history.get(place)
        until = self.now() + operation.seconds if known is None else known.at
        if known is None:
            self._store.record(self._run, place, operation, Completion(Outcome(), until))
        if until > self.now():
            await self._store.clock.sleep(until - self.now())
        return Outcome(), until

    def _name(self, place: int) -> str:
        return f"{self._info.run_id}-{place}"


class MemoryBook:
    """The `AttemptBook` of one step."""

    def __init__(self, host: MemoryHost, run: Run, place: int) -> None:
        self._host = host
        self._run = run
        self._place = place

    async def load(self) -> AttemptState | None:
        """Return what earlier attempts left."""
        data = self._run.books.get(self._place)
        return None if data is None else AttemptState.from_json(loads(data))

    async def save(self, state: AttemptState) -> None:
        """Keep what the next attempt has to know, unless the dispatch is over."""
        if self._host.alive and self._place not in self._run.history:
            self._run.books[self._place] = dumps(state.to_json())


async def outcome_of(store: MemoryStore, workflow_id: str) -> Outcome:
    """Wait until a run has ended and return its outcome.

    Raises:
        FlowError: reason `not-found`.
    """
    run = store.find(workflow_id)
    while run.outcome is None:
        await run.closed.wait(store.clock)
    return thaw_outcome(run.outcome)


def _data(error: FlowError) -> ErrorData:
    return ErrorData(error.message, error.reason, error.type, error.details, error.exhausted)


@dataclass(frozen=True, slots=True)
class Mark:
    """What a run does that is no operation of its flow: an order record, its end."""

    kind: str
    name: str = ""
    digest: str = ""


_ORDER = Mark("order")
_END = Mark("end")
