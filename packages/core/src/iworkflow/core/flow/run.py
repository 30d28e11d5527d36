"""One dispatch of a run: between the flow on its loop and the engine.

The flow runs until it is idle. What it issued by then gets the next places of the history, in
order. Completions are delivered one after another, the flow running until idle after each; what
is recorded is delivered before anything is started, so a replay starts nothing that an earlier
dispatch would not have started. Choices among completions are recorded before anything that
followed from them is started (`OrderLog`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from iworkflow.core.flow.entry import Air, Answer, Entry
from iworkflow.core.flow.inbox import READER_GRACE, Inbox, Receipt, Topic
from iworkflow.core.flow.limits import Limits
from iworkflow.core.flow.loop import FlowLoop, FlowTask
from iworkflow.core.flow.order import ORDER, OrderLog
from iworkflow.core.flow.parking import Parked, left_over, mismatch, no_place_for_order, stalled
from iworkflow.core.port import (
    Completion,
    Host,
    Operation,
    Outcome,
    Receive,
    RunInfo,
    SetState,
    Sleep,
)
from iworkflow.core.watchdog import flow_watch

log = logging.getLogger("iworkflow.flow")


class DeadlinePassed(Exception):
    """The run's deadline has passed: nothing is delivered into it any more."""


class FlowRun:
    """One dispatch of one run: between the flow on its loop and the host below."""

    def __init__(self, host: Host) -> None:
        self.host = host
        start = host.info.started_at.timestamp()
        self.loop = FlowLoop(self, start=start)  # type: ignore[abstract]  # what is left refuses
        self._air = Air()
        self._inbox = Inbox()
        self._limits = Limits(host, self._air)
        self._order = OrderLog(host.history)
        self._issued: list[Entry | Receipt] = []
        self._unstarted: deque[Entry] = deque()
        self._timers: dict[int, Entry] = {}
        self._running: set[asyncio.Task[Completion]] = set()
        self._last_state: asyncio.Task[Completion] | None = None
        self._trouble: BaseException | None = None
        self._parked: Parked | None = None
        self._wake = asyncio.Event()
        self._last_recorded = max(host.history, default=-1)
        self._gate_open = not host.history
        self._next_place = host.reserve()

    @property
    def info(self) -> RunInfo:
        """The facts of the run."""
        return self.host.info

    @property
    def replaying(self) -> bool:
        """Whether what the flow does now was done by an earlier dispatch already."""
        return self.host.replaying or not self._gate_open

    # What the flow calls.

    def issue(self, operation: Operation) -> Awaitable[Completion]:
        """Issue an operation. Cancelling the answer drops it."""
        self._check_inside()
        answer: Answer[Completion] = Answer(loop=self.loop)
        entry = Entry(operation, answer.set_result)
        answer.dropped = partial(self._drop, entry)
        if not self.loop.abandoned:
            self._issued.append(entry)
        return answer

    def receive(self, topic: str, timeout: float | None) -> Awaitable[Outcome]:
        """Wait for a message of the topic: `{"message": value}`, or None after `timeout`."""
        self._check_inside()
        receipt = Receipt(topic, timeout, Answer(loop=self.loop))
        receipt.answer.dropped = partial(self._drop_receipt, receipt)
        if not self.loop.abandoned:
            self._issued.append(receipt)
        return receipt.answer

    def park(self, why: str) -> Awaitable[NoReturn]:
        """Park the run: nothing of the flow runs any more in this dispatch."""
        self._check_inside()
        self._parked = self._parked or Parked(f"parked: {why}")
        return self.loop.create_future()

    def _check_inside(self) -> None:
        if asyncio._get_running_loop() is not self.loop:
            raise RuntimeError(
                f"the context of flow {self.info.workflow_id!r} works inside that flow alone; "
                "pass a step what it needs as arguments"
            )

    # What the loop calls.

    def timer_set(self, handle: asyncio.TimerHandle, delay: float) -> None:
        """Make a timer of the loop a durable sleep."""
        entry = Entry(Sleep(delay), lambda _: self._fire(handle))
        self._timers[id(handle)] = entry
        self._issued.append(entry)

    def timer_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Drop the sleep of a timer."""
        entry = self._timers.pop(id(handle), None)
        if entry is not None:
            self._drop(entry)

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        self._timers.pop(id(handle), None)
        self.loop.run_soon(handle)

    # The dispatch.

    async def run(self, main: FlowTask[Any]) -> None:
        """Run the flow's main task to its end.

        Raises:
            Parked: the code does not fit the history, or the flow waits for nothing.
            DeadlinePassed: as it says.
            Exception: what the host raised; the flow saw nothing of it.
        """
        while True:
            self._run_until_idle()
            if main.done():
                return self._check_end()
            self._seal()
            entry = self._next()
            if entry is not None:
                self._deliver(entry)
            else:
                await self._advance()

    def _run_until_idle(self) -> None:
        flow_watch.enter(self.info)
        try:
            self.loop.run_until_idle()
        finally:
            flow_watch.leave()
        if self._parked is not None:
            raise self._parked

    def _check_end(self) -> None:
        self._check_deadline()
        if self._last_recorded >= self._next_place:
            raise self._left_over()

    def _check_deadline(self) -> None:
        deadline = self.info.deadline
        if deadline is not None and self.host.now() >= deadline:
            raise DeadlinePassed(f"the deadline of {self.info.workflow_id!r} has passed")

    async def leave(self) -> None:
        """End the dispatch: close the flow, then end or await what the engine still does."""
        self.loop.abandon()
        for entry in self._air:
            if entry.task is not None and entry.interruptible:
                entry.task.cancel()
        try:
            while self._running:
                await asyncio.wait(self._running)
        except asyncio.CancelledError:
            for task in self._running:
                task.cancel()
            raise

    # Sealing: what was issued gets its place.

    def _seal(self) -> None:
        issued, self._issued = self._issued, []
        issued = [item for item in issued if not item.dropped]
        for item in issued:
            if isinstance(item, Entry):
                self._settle(item)
            else:
                self._admit(item, alone=len(issued) == 1 and self._air.noticed == 0)
        for topic in self._inbox.hungry():
            self._read(topic)

    def _settle(self, entry: Entry) -> None:
        """Give the entry its place, and what the history holds there."""
        if self._order.wants_place and self.host.orders:
            self._order.reserve(self._settle_order())
        entry.place = self._draw()
        record = self.host.history.get(entry.place)
        if record is not None:
            parked = mismatch(entry.place, record, entry.operation)
            if parked is not None:
                raise parked
            entry.recorded = record.completion
            end = record.completion.at if isinstance(entry.operation, Sleep) else 0.0
            if entry.limits is None and end <= self.host.now():
                entry.completion = record.completion
        if entry.completion is None:
            self._unstarted.append(entry)
        self._air.add(entry)

    def _settle_order(self) -> int:
        place = self._draw()
        record = self.host.history.get(place)
        if record is not None and record.kind != ORDER:
            raise no_place_for_order(place, record)
        return place

    def _draw(self) -> int:
        place, self._next_place = self._next_place, self.host.reserve()
        return place

    def _admit(self, receipt: Receipt, *, alone: bool) -> None:
        topic = self._inbox.topic(receipt.topic)
        if alone and topic.reader is None:
            operation = Receive(topic.name, receipt.timeout)
            receipt.alone = Entry(operation, lambda c: receipt.answer.set_result(c.outcome))
            self._settle(receipt.alone)
        else:
            self._share(receipt, topic)

    def _share(self, receipt: Receipt, topic: Topic) -> None:
        topic.waiting.append(receipt)
        if receipt.timeout is not None:
            receipt.timer = self._limit(receipt, receipt.timeout, topic)
            self._settle(receipt.timer)
        if topic.reader is not None:
            self._air.notice(topic.reader, True)

    def _limit(self, receipt: Receipt, timeout: float, topic: Topic) -> Entry:
        delay = timeout if self.host.orders else max(timeout, READER_GRACE)
        return Entry(Sleep(delay), lambda _: self._expire(receipt), limits=topic)

    def _read(self, topic: Topic) -> None:
        topic.reader = Entry(Receive(topic.name), lambda c: self._hand_out(topic, c))
        self._settle(topic.reader)

    # Delivering.

    def _next(self) -> Entry | None:
        """The entry to deliver now, or None when something has to happen first."""
        if not self._order.finish():
            raise self._left_over()
        if self.host.orders and self._air.noticed > 1:
            self._order.look(self._next_place)
        if self._order.next is not None:
            return self._scripted(self._order.next)
        return self._air.first_ready() or self._overslept()

    def _scripted(self, place: int) -> Entry:
        entry = self._air.get(place)
        if entry is None or not entry.noticed or entry.recorded is None:
            raise self._left_over([e.operation for e in self._air])
        entry.completion = entry.recorded
        return entry

    def _overslept(self) -> Entry | None:
        """A sleep that an earlier dispatch saw end, though by this clock it has not."""
        if self._last_recorded < self._next_place:
            return None
        sleeps = [e for e in self._air if e.recorded is not None and e.noticed]
        if not sleeps:
            return None
        entry = min(sleeps, key=lambda e: e.recorded.at if e.recorded else 0.0)
        entry.completion = entry.recorded
        return entry

    def _deliver(self, entry: Entry) -> None:
        self._check_deadline()
        assert entry.completion is not None
        if self.host.orders:
            self._order.delivered(entry.place, ambiguous=self._air.noticed > 1)
        self._air.remove(entry)
        if entry.limits is not None:
            self._drop(entry)  # it may have been delivered before its own look was over
        self.loop.advance(entry.completion.at)
        entry.deliver(entry.completion)

    def _hand_out(self, topic: Topic, completion: Completion) -> None:
        topic.reader = None
        topic.move()
        receipt = topic.waiting.popleft()
        if receipt.timer is not None:
            self._drop(receipt.timer)
        receipt.answer.set_result(completion.outcome)

    def _expire(self, receipt: Receipt) -> None:
        self._leave_topic(receipt)
        receipt.answer.set_result(Outcome())

    # Dropping.

    def _drop(self, entry: Entry) -> None:
        entry.dropped = True
        self._air.remove(entry)
        if entry.task is not None and entry.interruptible:
            entry.task.cancel()

    def _drop_receipt(self, receipt: Receipt) -> None:
        receipt.dropped = True
        if receipt.alone is not None:
            self._drop(receipt.alone)
        else:
            self._leave_topic(receipt)
        if receipt.timer is not None:
            self._drop(receipt.timer)

    def _leave_topic(self, receipt: Receipt) -> None:
        topic = self._inbox.topic(receipt.topic)
        if receipt in topic.waiting:
            topic.waiting.remove(receipt)
        if topic.reader is not None and not topic.waiting:
            self._air.notice(topic.reader, False)

    # Starting and waiting.

    async def _advance(self) -> None:
        """Record the choices made, start what was issued, wait until something completes."""
        if self._last_recorded >= self._next_place:
            raise self._left_over([e.operation for e in self._air])
        self._gate_open = True
        due = self._order.due()
        if due is not None:
            await self.host.record_order(*due)
        while self._unstarted:
            self._start(self._unstarted.popleft())
        if self._air.noticed == 0:
            raise stalled(self.loop.places())
        if self._air.first_ready() is None:
            await self._wake.wait()
        self._wake.clear()
        if self._trouble is not None:
            raise self._trouble

    def _start(self, entry: Entry) -> None:
        if entry.dropped:
            return
        after = None
        if isinstance(entry.operation, Sleep) and not self.host.orders:
            entry.due = self.host.now() + entry.operation.seconds
        if isinstance(entry.operation, SetState):
            after = self._last_state
        entry.task = asyncio.ensure_future(self._perform(entry, after))
        if isinstance(entry.operation, SetState):
            self._last_state = entry.task
        self._running.add(entry.task)
        entry.task.add_done_callback(partial(self._performed, entry))
        self._read_by(entry, Topic.move)

    async def _perform(self, entry: Entry, after: asyncio.Task[Completion] | None) -> Completion:
        """Perform the operation; states are set one after another, in their order."""
        if after is not None and not after.done():
            await asyncio.wait([after])
            if entry.dropped:
                raise asyncio.CancelledError
        completion = await self.host.perform(entry.place, entry.operation)
        if entry.limits is not None and self.host.orders:
            await self._limits.settled(entry, completion)
        return completion

    def _read_by(self, entry: Entry, call: Callable[[Topic], None]) -> None:
        """Call with the topic that the entry is the reader of, if it is one."""
        if isinstance(entry.operation, Receive):
            topic = self._inbox.topic(entry.operation.name)
            if topic.reader is entry:
                call(topic)

    def _performed(self, entry: Entry, task: asyncio.Task[Completion]) -> None:
        self._running.discard(task)
        if task.cancelled():
            if not entry.dropped and not self.loop.abandoned:
                self._trouble = self._trouble or RuntimeError(
                    f"the engine gave up operation {entry.place}"
                )
        elif task.exception() is not None:
            self._trouble = self._trouble or task.exception()
        elif not entry.dropped and entry.completion is None:
            entry.completion = task.result()
            at = entry.completion.at
            self._read_by(entry, lambda topic: self._limits.offer_ended(topic, at))
            self._air.offer(entry)
        self._wake.set()

    def _left_over(self, waits: Sequence[Operation] = ()) -> Parked:
        later = [p for p in self.host.history if p >= self._next_place]
        place = min(later, default=self._last_recorded)
        return left_over(place, self.host.history[place], waits)
