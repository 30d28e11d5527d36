"""Run flows in a test: virtual time, steps replaced, messages at chosen times, crashes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from iworkflow.core.client import Client, Handle
from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD, encode
from iworkflow.core.definition import AppDefinition, Target
from iworkflow.core.errors import FlowError
from iworkflow.core.memory.clock import VIRTUAL_START, VirtualClock
from iworkflow.core.memory.store import MemoryStore, moment
from iworkflow.core.memory.worker import MemoryWorker
from iworkflow.core.options import seconds
from iworkflow.core.port import Message
from iworkflow.core.testing.fakes import Fake, StepKey, replaced
from iworkflow.core.testing.fleet import Fleet, Interrupted
from iworkflow.core.testing.patience import PatientEngine
from iworkflow.core.testing.stage import Point, Schedule, TestStage
from iworkflow.core.testing.trace import Executed, Recorder, Trace

if TYPE_CHECKING:
    from typing import Self, Unpack

    from iworkflow.core.definition import Flow
    from iworkflow.core.options import StartOptions

R = TypeVar("R")

When = timedelta | float | datetime
"""A moment of a test: since its beginning (a number is seconds), or an aware time."""

log = logging.getLogger("iworkflow.testing")


class FlowTest:
    """Apps on a memory engine of their own, in virtual time.

    ```python
    async with FlowTest(app, steps={"compose": fake}) as t:
        run = await t.start(outreach, lead)
        t.signal_at(timedelta(hours=3), run.id, "reply", "yes")
        assert await run.result() == Outcome(reply="yes")
        assert [step.step for step in t.trace(run.id).steps] == ["compose"]
    ```

    Time passes only while a result is awaited, or in `advance`: days of sleeping take
    milliseconds. A wait that can never end raises `Stuck` and says what the run waits for; what
    another task of the test would do after waiting for something real does not count, so let
    messages come by `signal_at`.

    Args:
        apps: the apps, each with a worker of its own.
        steps: functions that run in place of steps, by the step or its name, in every app that
            has it. They may be async or not; they get and return what the real step's hints say.
        start: the first moment. Default: 2025-01-01, midnight, UTC.
        crash_after: after how many records all workers die and come back; None for never.
        crash_at: the numbers of the `points` at which they do, 1 for the first.
        schedule: who decides what happens next where more than one thing can.
        max_payload: how many bytes a value may have, encoded.
    """

    __test__ = False

    def __init__(
        self,
        *apps: AppDefinition,
        steps: Mapping[StepKey, Fake] | None = None,
        start: datetime | None = None,
        crash_after: int | None = None,
        crash_at: Iterable[int] = (),
        schedule: Schedule | None = None,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
    ) -> None:
        self._begin = VIRTUAL_START if start is None else start.timestamp()
        self._apps = apps
        self._ids: Counter[str] = Counter()
        self.clock = VirtualClock(self._begin)
        self.store = MemoryStore(self.clock)
        self._recorder = Recorder(self.clock.now)
        self.store.observer = self._recorder
        self._stage = TestStage(
            self.clock,
            schedule=schedule,
            crash_at=frozenset(crash_at),
            crash_after=crash_after,
        )
        self._fleet = Fleet(self._stage, self._recorder)
        for app, faked in zip(
            apps, replaced(apps, steps or {}, self._recorder.executed), strict=True
        ):
            worker = MemoryWorker(
                self.store, max_payload=max_payload, steps=faked, stage=self._stage
            )
            self._fleet.add(app, worker)
        self._engine = PatientEngine(self.store, self.clock, self._fleet)
        self.client = Client(self._engine, max_payload=max_payload)

    async def __aenter__(self) -> Self:
        await self._fleet.all_up()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._fleet.all_down()
        await self.client.close()
        trouble = self._fleet.broken()
        if trouble is not None and error is None:
            raise trouble

    # What runs.

    @overload
    async def start(
        self,
        flow: Target[R],
        /,
        *args: Any,
        id: str | None = None,
        **options: Unpack[StartOptions],
    ) -> Handle[R]: ...

    @overload
    async def start(
        self,
        flow: Flow | str,
        /,
        *args: Any,
        id: str | None = None,
        **options: Unpack[StartOptions],
    ) -> Handle[Any]: ...

    async def start(
        self,
        flow: Any,
        /,
        *args: Any,
        id: str | None = None,
        **options: Unpack[StartOptions],
    ) -> Handle[Any]:
        """Start a run and return its handle; the flow has not run yet.

        Args:
            flow: the flow, its name, or a target.
            args: its arguments after the context.
            id: the run's id. Default: the flow's name and a number.
            options: see `StartOptions`.

        Raises:
            ValueError: none of the apps has the flow.
        """
        target = _named(flow) or self.target(flow)
        if id is None:
            self._ids[target.flow] += 1
            id = f"{target.flow}-{self._ids[target.flow]}"
        return await self.client.start(target, *args, id=id, **options)

    def target(self, flow: Flow | str) -> Target[Any]:
        """Find the flow in the first app that has it.

        Raises:
            ValueError: none of the apps has the flow.
        """
        trouble = ValueError("this test has no app; write FlowTest(app)")
        for app in reversed(self._apps):
            try:
                return app.target(cast("str", flow))
            except ValueError as error:
                trouble = error
        raise trouble

    async def finish(self) -> None:
        """Let time pass until every run has ended.

        Raises:
            Stuck: one of them never will.
        """
        for run in list(self.store.runs.values()):
            await self._engine.result(run.id)

    async def up(self, app: str) -> None:
        """Start the worker of an app; it is up already when the test begins."""
        await self._fleet.up(app)

    async def down(self, app: str) -> None:
        """Stop the worker of an app; its runs wait until it is up again."""
        await self._fleet.down(app)

    # When.

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return moment(self.clock.now())

    @property
    def elapsed(self) -> timedelta:
        """How much virtual time has passed since the beginning of the test."""
        return timedelta(seconds=self.clock.now() - self._begin)

    def at(self, when: When, callback: Callable[[], object]) -> None:
        """Call back at a moment; several at one moment in the order of these calls."""
        self.clock.call_at(self._seconds(when), lambda: _call(callback))

    def signal_at(
        self, when: When, workflow_id: str, topic: str, value: Any, message_id: str | None = None
    ) -> None:
        """Send a message at a moment. That the run is missing or finished by then is logged."""
        message = Message(topic, encode(value, where=f"message {topic!r}"), message_id)

        def send() -> None:
            try:
                self.store.deliver(workflow_id, message)
            except FlowError as error:
                log.warning("message %r after %s: %s", topic, self.elapsed, error)

        self.at(when, send)

    async def advance(self, by: timedelta | float) -> None:
        """Let time pass, and everything happen that happens meanwhile."""
        await self._engine.pass_time(self.clock.now() + seconds("by", by, zero=True))

    async def settle(self) -> None:
        """Let happen what happens without any time passing."""
        await self._engine.pass_time(self.clock.now())

    def _seconds(self, when: When) -> float:
        if isinstance(when, datetime):
            return when.timestamp()
        return self._begin + seconds("when", when, zero=True)

    # Crashes.

    async def crash(self) -> None:
        """Let all workers die as by a kill, keep the store, and dispatch every run again."""
        self._fleet.crash()
        await self._fleet.crashed()

    def crash_at(self, when: When) -> None:
        """Do so at a moment."""
        self.at(when, self._fleet.crash)

    @property
    def interrupted(self) -> list[Interrupted]:
        """The steps that a crash caught before their record: each may run once more."""
        return self._fleet.interrupted

    # What happened.

    @property
    def points(self) -> list[Point]:
        """The moments so far at which a crash makes a difference."""
        return self._stage.points

    @property
    def executions(self) -> list[Executed]:
        """The attempts of the steps of all runs so far, run by run."""
        return self._recorder.executions

    def trace(self, workflow_id: str) -> Trace:
        """Return what happened to a run so far."""
        return self._recorder.trace(workflow_id)


def _named(flow: Any) -> Target[Any] | None:
    return flow if isinstance(flow, Target) else None  # pyright: ignore[reportUnknownVariableType]


def _call(callback: Callable[[], object]) -> None:
    callback()
