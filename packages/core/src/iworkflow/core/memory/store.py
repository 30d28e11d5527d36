"""What the memory engine remembers: runs, their histories, messages and state.

A store knows no driver and no task: a crash drops those, the store stays, and a dispatch from
it goes on. Every value is held as JSON bytes, so nothing is shared by reference between a flow
and the store. All methods are synchronous, and so each of them is atomic.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Protocol, cast

from iworkflow.core.codec import dumps, loads
from iworkflow.core.errors import ErrorData, FlowError, Reason
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.memory.clock import Bell, StoreClock, Timer, VirtualClock
from iworkflow.core.port import (
    Completion,
    FlowDescription,
    FlowFilter,
    Message,
    Operation,
    Outcome,
    Record,
    RunInfo,
    StartReply,
    StartRequest,
    Status,
)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message that waits in an inbox."""

    number: int
    value: bytes
    at: float


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One place of a history."""

    kind: str
    name: str
    digest: str
    outcome: bytes
    at: float
    order: tuple[int, ...] = ()

    def thaw(self) -> Record:
        """Build the record that the driver reads."""
        completion = Completion(thaw_outcome(self.outcome), self.at)
        return Record(self.kind, self.name, self.digest, completion, self.order)


@dataclass(slots=True, eq=False)
class Run:
    """Everything that is known of one run."""

    number: int
    request: StartRequest
    args: bytes
    started_at: float
    deadline: float | None
    starter: str | None = None
    """The operation that started it, as `<run>-<place>`; None for a client."""
    status: Status = Status.RUNNING
    outcome: bytes | None = None
    closed_at: float | None = None
    patches: frozenset[str] | None = None
    """The patches declared at the first dispatch; None before it."""
    born: int = 0
    """When that was, as the store counts."""
    history: dict[int, StoredRecord] = field(default_factory=dict[int, StoredRecord])
    begun: dict[int, float] = field(default_factory=dict[int, float])
    """When the operations with a timeout of their own began, by place."""
    books: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """The attempts of the steps that failed or beat, by place."""
    state: dict[str, bytes] = field(default_factory=dict[str, bytes])
    inbox: dict[str, list[StoredMessage]] = field(default_factory=dict[str, list[StoredMessage]])
    message_ids: set[str] = field(default_factory=set[str])
    owner: Taker | None = None
    """The worker that has it now; none of the store's own business survives in it."""
    closed: Bell = field(default_factory=Bell)
    arrived: Bell = field(default_factory=Bell)
    timer: Timer | None = None

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.request.id

    @property
    def running(self) -> bool:
        """Whether no outcome is recorded yet."""
        return self.status is Status.RUNNING

    def info(self, began: int | None = None) -> RunInfo:
        """Return the facts of the run, its arguments copied, for a worker that began then."""
        request = self.request
        return RunInfo(
            workflow_id=request.id,
            run_id=f"{request.id}#{self.number}",
            app=request.app,
            flow=request.flow,
            args=cast("list[JsonValue]", loads(self.args)),
            started_at=moment(self.started_at),
            priority=request.priority,
            parent_id=request.parent_id,
            deadline=self.deadline,
            patches=self.patches or frozenset(),
            younger=began is not None and self.born > began,
        )

    def describe(self) -> FlowDescription:
        """Return what `describe` and `list` tell."""
        request = self.request
        return FlowDescription(
            id=request.id,
            app=request.app,
            flow=request.flow,
            status=self.status,
            started_at=moment(self.started_at),
            closed_at=None if self.closed_at is None else moment(self.closed_at),
            priority=request.priority,
            parent_id=request.parent_id,
        )

    def reply(self, *, created: bool) -> StartReply:
        """Return what a start of this id is answered."""
        return StartReply(created, self.request.app, self.request.flow, self.status)


class Taker(Protocol):
    """A worker, as the store sees it."""

    def offer(self, run: Run) -> bool:
        """Take the run and own it, or leave it."""
        ...

    def lost(self, run: Run) -> None:
        """Take note that the run, owned by this worker, was ended from outside."""
        ...


class Observer(Protocol):
    """Hears what a store takes in; for the testing kit."""

    def recorded(self, run: Run, place: int, record: StoredRecord) -> None:
        """Hear of a new place in a history."""
        ...

    def delivered(self, run: Run, topic: str, value: bytes) -> None:
        """Hear of a new message in an inbox."""
        ...

    def closed(self, run: Run) -> None:
        """Hear of the end of a run."""
        ...


class MemoryStore:
    """The store that runtimes and clients of the memory engine share.

    Args:
        clock: the time of everything in it. Default: a `VirtualClock` of its own.
    """

    def __init__(self, clock: StoreClock | None = None) -> None:
        self.clock: StoreClock = VirtualClock() if clock is None else clock
        self.runs: dict[str, Run] = {}
        self.takers: dict[str, list[Taker]] = {}
        self.observer: Observer | None = None
        self._numbers = itertools.count(1)

    def tick(self) -> int:
        """Count one more thing that happened here; what happens later has a higher number."""
        return next(self._numbers)

    def find(self, workflow_id: str) -> Run:
        """Return the run of this id, closed if its deadline has passed.

        Raises:
            FlowError: reason `not-found`.
        """
        run = self.runs.get(workflow_id)
        if run is None:
            raise FlowError(f"no flow {workflow_id!r}", reason=Reason.NOT_FOUND)
        self.expire(run)
        return run

    def start(
        self, request: StartRequest, *, starter: str | None = None, message: Message | None = None
    ) -> StartReply:
        """Start the run unless its id is taken; with a message, send it if it is running.

        A run of another flow that bears the id gets no message. The same `starter` is told
        `created` again, so an operation may be performed twice.
        """
        run = self.runs.get(request.id)
        created = run is None
        if run is None:
            run = self._add(request, starter)
        else:
            self.expire(run)
            created = starter is not None and run.starter == starter
        same = (run.request.app, run.request.flow) == (request.app, request.flow)
        if message is not None and same and run.running:
            self.deliver(run.id, message)
        if run.owner is None and run.running:
            self.offer(run)
        return run.reply(created=created)

    def _add(self, request: StartRequest, starter: str | None) -> Run:
        now = self.clock.now()
        run = Run(
            number=self.tick(),
            request=replace(request, args=()),
            args=dumps(request.args),
            started_at=now,
            deadline=None if request.timeout is None else now + request.timeout,
            starter=starter,
        )
        self.runs[run.id] = run
        self.arm(run)
        return run

    def arm(self, run: Run) -> None:
        """Set the timer of the run's deadline."""
        if run.deadline is not None and run.running:
            if run.timer is not None:
                run.timer.cancel()
            run.timer = self.clock.call_at(run.deadline, lambda: self.expire(run))

    def expire(self, run: Run) -> None:
        """Close the run as timed out if it is past its deadline."""
        if run.running and run.deadline is not None and self.clock.now() >= run.deadline:
            error = ErrorData(f"flow {run.id!r} timed out", Reason.TIMEOUT)
            self.close(run, Status.TIMED_OUT, Outcome(error=error))

    def terminate(self, run: Run, reason: str) -> None:
        """Close the run as terminated, unless it is closed."""
        if run.running:
            text = f"flow {run.id!r} was terminated" + (f": {reason}" if reason else "")
            self.close(run, Status.TERMINATED, Outcome(error=ErrorData(text, Reason.TERMINATED)))

    def close(self, run: Run, status: Status, outcome: Outcome) -> None:
        """Record the outcome, wake who waits for it and tell the owner; once."""
        if not run.running:
            return
        run.status, run.outcome, run.closed_at = status, freeze_outcome(outcome), self.clock.now()
        if run.timer is not None:
            run.timer.cancel()
            run.timer = None
        if self.observer is not None:
            self.observer.closed(run)
        owner, run.owner = run.owner, None
        if owner is not None:
            owner.lost(run)
        run.closed.ring()

    def deliver(self, workflow_id: str, message: Message) -> None:
        """Put a message into the inbox of a running flow; the same id once.

        Raises:
            FlowError: reason `not-found`: the run is missing or finished.
        """
        run = self.find(workflow_id)
        if not run.running:
            raise FlowError(
                f"flow {workflow_id!r} has finished and takes no messages",
                reason=Reason.NOT_FOUND,
            )
        if message.id is not None:
            if message.id in run.message_ids:
                return
            run.message_ids.add(message.id)
        stored = StoredMessage(self.tick(), dumps(message.value), self.clock.now())
        run.inbox.setdefault(message.topic, []).append(stored)
        if self.observer is not None:
            self.observer.delivered(run, message.topic, stored.value)
        run.arrived.ring()

    def record(self, run: Run, place: int, operation: Operation, completion: Completion) -> None:
        """Write a place of the history."""
        outcome = freeze_outcome(completion.outcome)
        self._write(
            run,
            place,
            StoredRecord(operation.kind, operation.name, operation.digest, outcome, completion.at),
        )

    def record_order(self, run: Run, place: int, order: tuple[int, ...]) -> None:
        """Write an order record into the history."""
        outcome = freeze_outcome(Outcome())
        self._write(run, place, StoredRecord("order", "", "", outcome, self.clock.now(), order))

    def _write(self, run: Run, place: int, record: StoredRecord) -> None:
        run.history[place] = record
        run.begun.pop(place, None)
        run.books.pop(place, None)
        if self.observer is not None:
            self.observer.recorded(run, place, record)

    def search(self, filter: FlowFilter) -> list[FlowDescription]:
        """Return the runs that fit, newest first."""
        for run in self.runs.values():
            self.expire(run)
        newest = sorted(self.runs.values(), key=lambda run: run.number, reverse=True)
        found = (run.describe() for run in newest)
        return list(itertools.islice((one for one in found if _fits(one, filter)), filter.limit))

    def join(self, app: str, taker: Taker) -> None:
        """Let a worker of the app take runs; it is offered all that nobody owns."""
        self.takers.setdefault(app, []).append(taker)
        for run in self.waiting_runs(app):
            self.arm(run)
            self.offer(run)

    def leave(self, app: str, taker: Taker) -> None:
        """Offer the worker nothing more."""
        takers = self.takers.get(app, [])
        if taker in takers:
            takers.remove(taker)

    def offer(self, run: Run) -> None:
        """Offer the run to the workers of its app, the newest first."""
        for taker in reversed(self.takers.get(run.request.app, [])):
            if taker.offer(run):
                return

    def waiting_runs(self, app: str) -> list[Run]:
        """Return the running runs of an app that nobody owns, in order of priority and start."""
        runs = [run for run in self._running() if run.request.app == app and run.owner is None]
        return sorted(runs, key=lambda run: (run.request.priority, run.number))

    def _running(self) -> Iterator[Run]:
        for run in list(self.runs.values()):
            self.expire(run)
            if run.running:
                yield run


def _fits(one: FlowDescription, filter: FlowFilter) -> bool:
    return (
        (filter.id_prefix is None or one.id.startswith(filter.id_prefix))
        and (filter.app is None or one.app == filter.app)
        and (filter.flow is None or one.flow == filter.flow)
        and (filter.status is None or one.status is filter.status)
        and (filter.since is None or one.started_at >= filter.since)
    )


def moment(seconds: float) -> datetime:
    """Return an aware UTC time."""
    return datetime.fromtimestamp(seconds, UTC)


def freeze_outcome(outcome: Outcome) -> bytes:
    """Turn an outcome into the bytes that the store holds."""
    if outcome.error is not None:
        return dumps({"error": outcome.error.to_json()})
    return dumps({"value": outcome.value})


def thaw_outcome(data: bytes) -> Outcome:
    """Build a fresh outcome from the bytes of the store."""
    members = cast("Mapping[str, Any]", loads(data))
    if "error" in members:
        return Outcome(error=ErrorData.from_json(members["error"]))
    return Outcome(value=members["value"])


@cache
def default_store() -> MemoryStore:
    """Return the store of this process, in which runtimes and clients meet by default."""
    return MemoryStore()
