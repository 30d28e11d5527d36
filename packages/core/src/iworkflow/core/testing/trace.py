"""What a test reads afterwards: everything that happened, in its order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from iworkflow.core.codec import loads
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.memory.host import performing
from iworkflow.core.memory.store import Run, StoredRecord, thaw_outcome
from iworkflow.core.port import Outcome, Status
from iworkflow.core.steps import step_info


@dataclass(frozen=True, slots=True)
class Recorded:
    """An operation was recorded. `at` is in seconds since the epoch."""

    run: str
    at: float
    place: int
    kind: str
    name: str
    outcome: Outcome
    order: tuple[int, ...] = ()

    def __str__(self) -> str:
        came = self.order if self.kind == "order" else _told(self.outcome)
        return f"{self.place:>3} {self.kind} {self.name!r} -> {came}"


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message came into the inbox of the run."""

    run: str
    at: float
    topic: str
    value: JsonValue

    def __str__(self) -> str:
        return f"    message {self.topic!r} {self.value!r}"


@dataclass(frozen=True, slots=True)
class Executed:
    """An attempt of a step began, with these arguments."""

    run: str
    at: float
    place: int
    step: str
    args: tuple[Any, ...]
    attempt: int
    digest: str
    """Tells apart two calls of the step with other arguments."""

    def __str__(self) -> str:
        args = ", ".join(map(repr, self.args))
        again = f" (attempt {self.attempt})" if self.attempt > 1 else ""
        return f"    runs {self.step}({args}){again}"


@dataclass(frozen=True, slots=True)
class Crashed:
    """Every worker died and came back."""

    run: str
    at: float

    def __str__(self) -> str:
        return "    crash"


@dataclass(frozen=True, slots=True)
class Ended:
    """The run ended."""

    run: str
    at: float
    status: Status
    outcome: Outcome

    def __str__(self) -> str:
        return f"    {self.status} -> {_told(self.outcome)}"


Event = Recorded | Delivered | Executed | Crashed | Ended


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of one run, in their order. `str()` is a table for people."""

    events: tuple[Event, ...]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    @property
    def operations(self) -> list[Recorded]:
        """What was recorded, order records left out."""
        return [e for e in self.events if isinstance(e, Recorded) and e.kind != "order"]

    @property
    def orders(self) -> list[tuple[int, ...]]:
        """The order records: places in the order in which their completions were delivered."""
        return [e.order for e in self.events if isinstance(e, Recorded) and e.kind == "order"]

    @property
    def messages(self) -> list[Delivered]:
        """The messages that came in."""
        return [e for e in self.events if isinstance(e, Delivered)]

    @property
    def steps(self) -> list[Executed]:
        """The attempts of steps that began."""
        return [e for e in self.events if isinstance(e, Executed)]

    @property
    def crashes(self) -> int:
        """How often the workers died."""
        return sum(isinstance(e, Crashed) for e in self.events)

    def __str__(self) -> str:
        if not self.events:
            return "(nothing happened)"
        start = self.events[0].at
        return "\n".join(f"{e.at - start:>10.2f} s {e}" for e in self.events)


class Recorder:
    """The observer of a store that writes the traces."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._events: dict[str, list[Event]] = {}
        self.now = now

    def add(self, event: Event) -> None:
        """Append an event to its run's trace."""
        self._events.setdefault(event.run, []).append(event)

    @property
    def executions(self) -> list[Executed]:
        """The attempts of all runs, run by run."""
        return [e for events in self._events.values() for e in events if isinstance(e, Executed)]

    def trace(self, run_id: str) -> Trace:
        """Return what happened to a run so far."""
        return Trace(tuple(self._events.get(run_id, ())))

    def executed(self, step: str, args: tuple[Any, ...]) -> None:
        """Write that an attempt of a step began; called inside the step."""
        info = step_info()
        place, operation = performing.get()
        self.add(
            Executed(
                run=info.workflow_id,
                at=self.now(),
                place=place,
                step=step,
                args=args,
                attempt=info.attempt,
                digest=operation.digest,
            )
        )

    def crashed(self, run_id: str) -> None:
        """Write that the worker died under this run."""
        self.add(Crashed(run_id, self.now()))

    def recorded(self, run: Run, place: int, record: StoredRecord) -> None:
        """Write a record."""
        outcome = thaw_outcome(record.outcome)
        self.add(
            Recorded(run.id, self.now(), place, record.kind, record.name, outcome, record.order)
        )

    def delivered(self, run: Run, topic: str, value: bytes) -> None:
        """Write a message."""
        self.add(Delivered(run.id, self.now(), topic, cast("JsonValue", loads(value))))

    def closed(self, run: Run) -> None:
        """Write the end of a run."""
        if run.outcome is not None:
            self.add(Ended(run.id, self.now(), run.status, thaw_outcome(run.outcome)))


def _told(outcome: Outcome) -> str:
    if outcome.error is None:
        return repr(outcome.value)
    error = outcome.error
    return f"{error.reason} {error.type or ''}: {error.message}"
