"""Runs whose code does not fit their history: Temporal retries them, and we say what is wrong.

Temporal finds the misfit itself, fails the workflow task and tries it again, so the run stays
`running` and goes on once the code fits. Its message names event types; ours names the place,
what is recorded there and what the code asks for, as on every engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast
from weakref import WeakValueDictionary

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.bridge.proto.workflow_activation import (
    RemoveFromCache,
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client
from temporalio.worker import WorkflowInstance

from iworkflow.core.flow.news import News
from iworkflow.core.flow.parking import REMEDY, left_over, mismatch
from iworkflow.core.port import Completion, Operation, Outcome, Receive, Record, SendSignal
from iworkflow.temporal.messages import topic_of
from iworkflow.temporal.names import DESCRIBE, RESULT

log = logging.getLogger("iworkflow.temporal")

_NOTHING = Completion(Outcome(), 0.0)
_SILENT = frozenset({"set-state", "now"})
_NONDETERMINISTIC = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR


class Asked:
    """What the flow of one dispatch asked for that leaves an event in the history, in order."""

    def __init__(self, workflow_id: str, run_id: str) -> None:
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.records: list[tuple[int, Record]] = []
        self.dropped: set[int] = set()
        """Places of what was dropped: if that was at once, Temporal never heard of it."""
        self.ended = False
        """Whether the flow has come to its end."""
        self.evicted = False
        """Whether Temporal has forgotten the dispatch; what is dropped then, it drops."""

    def add(self, place: int, operation: Operation) -> None:
        """Note an operation."""
        if self._leaves_an_event(operation):
            record = Record(operation.kind, operation.name, operation.digest, _NOTHING)
            self.records.append((place, record))

    def drop(self, place: int) -> None:
        """Note that the flow dropped an operation."""
        if not self.evicted:
            self.dropped.add(place)

    def _leaves_an_event(self, operation: Operation) -> bool:
        if isinstance(operation, Receive):
            return operation.timeout is not None
        if isinstance(operation, SendSignal):
            return operation.workflow_id != self.workflow_id
        return operation.kind not in _SILENT


class Ledger:
    """The dispatches of one worker, and the misfits that Temporal finds among them.

    `found` is called with what a flow asked for and with Temporal's message, from any thread. The
    message is empty where Temporal did not say that it is a misfit: a worker that keeps nothing
    in memory evicts everything for want of space, and only the history tells.
    """

    def __init__(self) -> None:
        self.found: Callable[[Asked, str], object] = _ignore
        self.news = News()
        self._dispatches: WeakValueDictionary[str, Asked] = WeakValueDictionary()
        self._instances: dict[str, WorkflowInstance] = {}
        self._patches: dict[str, set[str]] = {}

    def open(self, workflow_id: str, run_id: str) -> Asked:
        """Begin a dispatch; it is known for as long as somebody holds what this returns."""
        asked = self._dispatches[run_id] = Asked(workflow_id, run_id)
        return asked

    def entered(self, run_id: str, instance: WorkflowInstance, patches: Iterable[str]) -> None:
        """Take note of a workflow that is in memory, and of patches that its history names."""
        self._instances[run_id] = instance
        self._patches.setdefault(run_id, set()).update(patches)

    def patches(self, run_id: str) -> frozenset[str]:
        """The patches that the history of a workflow names, also those this code has not."""
        return frozenset(self._patches.get(run_id, ()))

    def evicted(self, run_id: str, job: RemoveFromCache, *, midway: bool) -> None:
        """Take note of why Temporal forgets a workflow, and whether that is midway in a replay."""
        self._instances.pop(run_id, None)
        self._patches.pop(run_id, None)
        asked = self._dispatches.get(run_id)
        if asked is None:
            return
        asked.evicted = True
        if job.reason == RemoveFromCache.NONDETERMINISM:
            self.found(asked, job.message)
        elif midway:
            self.found(asked, "")

    def close(self) -> None:
        """End the workflows that a worker leaves in memory when it stops. It blocks.

        Left to the garbage collector, clean-ups of their flows would run anywhere.
        """
        while self._instances:
            run_id, instance = self._instances.popitem()
            instance.activate(
                WorkflowActivation(
                    run_id=run_id,
                    jobs=[WorkflowActivationJob(remove_from_cache=RemoveFromCache())],
                )
            )


def _ignore(asked: Asked, message: str) -> None:
    """Stand in for what the worker sets."""


class WatchedInstance:
    """A `WorkflowInstance` of Temporal's that tells the ledger of its eviction."""

    def __init__(self, inner: WorkflowInstance, ledger: Ledger) -> None:
        self._inner = inner
        self._ledger = ledger
        self._midway = False

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Run the workflow as far as it goes."""
        patches = [j.notify_has_patch.patch_id for j in act.jobs if j.HasField("notify_has_patch")]
        self._ledger.entered(act.run_id, self._inner, patches)
        for job in act.jobs:
            if job.HasField("remove_from_cache"):
                self._ledger.evicted(act.run_id, job.remove_from_cache, midway=self._midway)
        self._midway = act.is_replaying and not any(j.HasField("query_workflow") for j in act.jobs)
        return self._inner.activate(act)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Reporter:
    """Logs, once for each run and text, why a run is parked."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop
        self._news = News()
        self._tasks: set[asyncio.Task[None]] = set()

    def found(self, asked: Asked, message: str) -> None:
        """Report a misfit."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._begin, asked, message)

    async def stop(self) -> None:
        """End what is being looked up."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, asked: Asked, message: str) -> None:
        task = self._loop.create_task(self._report(asked, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report(self, asked: Asked, message: str) -> None:
        why = await self._why(asked, certain=bool(message))
        if why is None and message:
            why = f"parked: {message}; {REMEDY}"
        if why is not None:
            self._news.tell(log.error, asked.run_id, f"flow {asked.workflow_id!r} {why}")

    async def _why(self, asked: Asked, *, certain: bool) -> str | None:
        handle = self._client.get_workflow_handle(asked.workflow_id, run_id=asked.run_id)
        try:
            history = await handle.fetch_history()
        except Exception:
            log.debug("the history of %r cannot be read", asked.workflow_id, exc_info=True)
            return None
        if not (certain or is_refused(history.events)):
            return None
        known = list(recorded(history.events))
        return why_parked(asked.records, known, dropped=asked.dropped, ended=asked.ended)


def is_refused(events: Iterable[HistoryEvent]) -> bool:
    """Whether what a worker answered last did not fit the history."""
    refused = False
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            refused = False
        elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            cause = event.workflow_task_failed_event_attributes.cause
            refused = refused or cause == _NONDETERMINISTIC
    return refused


def recorded(events: Iterable[HistoryEvent]) -> Iterator[tuple[int | None, Record]]:
    """Read what a run asked for from its history, in order, with the place where it tells."""
    for event in events:
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                activity = event.activity_task_scheduled_event_attributes
                place, _, digest = activity.activity_id.partition("-")
                kind, name = _activity(activity.activity_type.name)
                yield int(place), Record(kind, name, digest, _NOTHING)
            case EventType.EVENT_TYPE_TIMER_STARTED:
                yield None, Record("sleep", "", "", _NOTHING)
            case EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
                child = event.start_child_workflow_execution_initiated_event_attributes
                name = f"{child.task_queue.name}/{child.workflow_type.name}"
                yield None, Record("start-child", name, "", _NOTHING)
            case EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
                signal = event.signal_external_workflow_execution_initiated_event_attributes
                yield None, Record("signal", topic_of(signal.signal_name), "", _NOTHING)
            case _:
                pass


def _activity(name: str) -> tuple[str, str]:
    services = {DESCRIBE: ("described", ""), RESULT: ("await-run", "")}
    return services.get(name, ("step", name))


def why_parked(
    asked: Sequence[tuple[int, Record]],
    history: Sequence[tuple[int | None, Record]],
    *,
    dropped: AbstractSet[int] = frozenset(),
    ended: bool = True,
) -> str | None:
    """Find the first place where the code and the history part; None if they do not.

    Code that has not `ended` waits for the operation it asked for last, at least.
    """
    rest = [entry for entry in history if entry[1].kind != "described"]
    place = 0
    for place, wanted in asked:
        if not rest:
            return None
        known_place, known = rest[0]
        if _fits(known, wanted) and known_place in (None, place):
            rest.pop(0)
        elif place not in dropped and not _optional(wanted):
            return str(mismatch(place, known, cast("Operation", wanted)) or _moved(place, known))
    if not rest:
        return None
    known_place, known = rest[0]
    waits = [] if ended else [cast("Operation", wanted) for _, wanted in asked[-1:]]
    return str(left_over(known_place or place + 1, known, waits))


def _moved(place: int, known: Record) -> str:
    return f"parked at operation {place}: {known.kind} {known.name!r} is recorded elsewhere"


def _optional(wanted: Record) -> bool:
    """Whether the operation may have left nothing: a message was there, the child was one's own."""
    return wanted.kind in ("recv", "await-run")


def _fits(known: Record, wanted: Record) -> bool:
    if wanted.kind == "recv":
        return known.kind == "sleep"
    if wanted.kind == "await-run":
        return known.kind == wanted.kind
    return (known.kind, known.name, known.digest) == (wanted.kind, wanted.name, wanted.digest)
