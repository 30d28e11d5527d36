"""The engine port: what an adapter implements, in operations over JSON values.

`Context`, `Client` and `Runtime` are concrete classes of core. They resolve names, check
options, encode, decode and turn errors; what is left for an adapter is here:

- `Host`: one dispatch of one run, as the driver sees it;
- `ClientEngine`: what a client asks of an engine;
- `WorkerEngine`: a worker process of one app.

Nothing here knows a user's types: every value is JSON already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol

from iworkflow.core.errors import ErrorData
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.options import StepPolicy

if TYPE_CHECKING:
    from iworkflow.core.definition import AppDefinition


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step, a child or a run came to: a value, or an error."""

    value: JsonValue = None
    error: ErrorData | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """The outcome of an operation and when it was reached, in seconds since the epoch."""

    outcome: Outcome
    at: float


class Existing(StrEnum):
    """What to do about a run that already bears the id."""

    ATTACH = "attach"
    REJECT = "reject"


class Status(StrEnum):
    """The five statuses that a run can have."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class StartRequest:
    """A run to start. `timeout` is in seconds and counts from the start."""

    app: str
    flow: str
    id: str
    args: Sequence[JsonValue]
    timeout: float | None = None
    priority: int = 3
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class StartReply:
    """Whether the request started the run, and whose run bears the id now."""

    created: bool
    app: str
    flow: str
    status: Status


@dataclass(frozen=True, slots=True)
class Message:
    """A message for a run. An engine delivers one `id` to a run once."""

    topic: str
    value: JsonValue
    id: str | None = None


# Operations: what a flow asks of its engine. `kind` and `name` stand in the history and in
# the line that tells why a run is parked; `digest` tells apart two calls of the same name.


@dataclass(frozen=True, slots=True)
class RunStep:
    """Run a step with its retries. Completes with its result or its `FlowError`."""

    kind: ClassVar[str] = "step"
    name: str
    args: Sequence[JsonValue]
    policy: StepPolicy
    digest: str


@dataclass(frozen=True, slots=True)
class StartChild:
    """Start a run durably. Completes with `{"created", "app", "flow", "status"}`."""

    kind: ClassVar[str] = "start-child"
    request: StartRequest
    digest: str = ""

    @property
    def name(self) -> str:
        """The target as `app/flow`."""
        return f"{self.request.app}/{self.request.flow}"


@dataclass(frozen=True, slots=True)
class AwaitRun:
    """Wait for the outcome of a run, a child or not. Completes with it."""

    kind: ClassVar[str] = "await-run"
    name: str
    """The id of the run."""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Receive:
    """Take the oldest unread message of a topic.

    Completes with `{"message": value}`, at the time at which the message was sent, or with None
    when `timeout` seconds passed: a message that was sent later is left. Taking the message and
    recording the completion count as one: performed again after a crash, the operation takes
    the same message.
    """

    kind: ClassVar[str] = "recv"
    name: str
    """The topic."""
    timeout: float | None = None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class SendSignal:
    """Send a message to a run. Completes with reason `not-found` if it is missing or finished.

    Performed again after a crash, it delivers nothing twice.
    """

    kind: ClassVar[str] = "signal"
    workflow_id: str
    message: Message
    digest: str = ""

    @property
    def name(self) -> str:
        """The topic."""
        return self.message.topic


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for `seconds` from its start. A sleep that was begun keeps its end across crashes."""

    kind: ClassVar[str] = "sleep"
    seconds: float
    name: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class SetState:
    """Set what a query of the key answers."""

    kind: ClassVar[str] = "set-state"
    name: str
    """The key."""
    value: JsonValue
    digest: str = ""


@dataclass(frozen=True, slots=True)
class ReadClock:
    """Record the wall time: the completion's own `at` is the answer."""

    kind: ClassVar[str] = "now"
    name: str = ""
    digest: str = ""


Operation = RunStep | StartChild | AwaitRun | Receive | SendSignal | Sleep | SetState | ReadClock


@dataclass(frozen=True, slots=True)
class Record:
    """What a run's history holds at one place.

    `completion` of a sleep stands there from its start and lies in the future until its end.
    `order` is set in order records alone (kind `order`).
    """

    kind: str
    name: str
    digest: str
    completion: Completion
    order: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The facts of one run."""

    workflow_id: str
    run_id: str
    app: str
    flow: str
    args: Sequence[JsonValue]
    started_at: datetime
    priority: int = 3
    parent_id: str | None = None
    deadline: float | None = None
    """Seconds since the epoch."""
    patches: frozenset[str] = frozenset()
    """The patches that the app declared when the run was first dispatched."""
    younger: bool = False
    """Whether that was after this worker had started."""


class Host(Protocol):
    """One dispatch of one run.

    The driver calls `reserve` and `perform` from the engine's own event loop. It reserves
    places in the order in which the flow issued its operations, and performs an operation only
    after every choice that led to it is recorded.
    """

    @property
    def info(self) -> RunInfo:
        """The facts of the run."""
        ...

    @property
    def history(self) -> Mapping[int, Record]:
        """What the run recorded before this dispatch, by place. Empty where `orders` is false."""
        ...

    @property
    def orders(self) -> bool:
        """Whether the driver has to record the order of completions (false: the engine does)."""
        ...

    @property
    def replaying(self) -> bool:
        """Whether the engine itself is replaying. False where `orders` is true."""
        ...

    def now(self) -> float:
        """The engine's time in seconds since the epoch."""
        ...

    def reserve(self) -> int:
        """Draw the next place of the history."""
        ...

    async def perform(self, place: int, operation: Operation) -> Completion:
        """Carry the operation out and record it; return once it is durable.

        What an operation says about being performed again holds here. A cancel ends what runs
        and records nothing. What it raises is the engine's own trouble: it ends the dispatch
        and never reaches the flow.
        """
        ...

    async def look(self, place: int, operation: Receive) -> bool:
        """Tell whether a `Receive` that is being performed has, or now gets, a message.

        False says that no message that was sent before the call is there for it; true, that it
        completes. It may be called before the engine has begun with the operation, not after
        `perform` has returned, and never where `orders` is false.
        """
        ...

    async def record_order(self, place: int, order: Sequence[int]) -> None:
        """Record that the operations at these places were delivered in this order."""
        ...

    def parked(self, why: str) -> None:
        """Take note that the run cannot go on under this code; core then logs `why`.

        The driver waits until it is cancelled; the run's status stays `running`. A host that is
        tried again and again raises instead, and logs `why` itself, once.
        """
        ...


@dataclass(frozen=True, slots=True)
class FlowFilter:
    """What `list` narrows by; None does not narrow."""

    id_prefix: str | None = None
    app: str | None = None
    flow: str | None = None
    status: Status | None = None
    since: datetime | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class FlowDescription:
    """What `describe` and `list` tell of a run."""

    id: str
    app: str
    flow: str
    status: Status
    started_at: datetime
    closed_at: datetime | None = None
    priority: int = 3
    parent_id: str | None = None


class ClientEngine(Protocol):
    """What a client asks of an engine. Every method raises `FlowError` in the port's terms."""

    async def start(self, request: StartRequest) -> StartReply:
        """Start the run, unless its id is taken; once it returns, the start is durable."""
        ...

    async def signal(self, workflow_id: str, message: Message) -> None:
        """Send a message; reason `not-found` if the run is missing or finished."""
        ...

    async def signal_with_start(self, request: StartRequest, message: Message) -> StartReply:
        """Start the run with the message, or send it to the running one.

        A finished run, and one of another flow or app, is left alone: the reply tells.
        """
        ...

    async def result(self, workflow_id: str) -> Outcome:
        """Wait for the outcome. A cancel leaves the run alone. Missing: `not-found`."""
        ...

    async def query(self, workflow_id: str, key: str) -> JsonValue:
        """The last value of the key, or None. Missing run: `not-found`."""
        ...

    async def describe(self, workflow_id: str) -> FlowDescription:
        """Describe the run. Missing: `not-found`."""
        ...

    async def list(self, filter: FlowFilter) -> list[FlowDescription]:
        """The runs that fit, newest first."""
        ...

    async def terminate(self, workflow_id: str, reason: str) -> None:
        """End the run now. A finished one: nothing. Missing: `not-found`."""
        ...

    async def close(self) -> None:
        """Close what the client opened."""
        ...


class WorkerEngine(Protocol):
    """A worker of one app in this process."""

    async def start(self, app: AppDefinition) -> None:
        """Connect and begin to take runs. What it opened before a failure, `stop` closes."""
        ...

    async def broken(self) -> BaseException:
        """Wait until something breaks the worker, and return it."""
        ...

    async def stop(self, grace: float) -> None:
        """Take nothing new, let steps finish for `grace` seconds, hand the runs back."""
        ...
