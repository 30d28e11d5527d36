"""The runs that this process is at: ending those that it lost, giving back those it cannot run."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import Any

from iworkflow.core.definition import AppDefinition
from iworkflow.core.flow.news import News
from iworkflow.core.flow.placement import unknown_flow
from iworkflow.dbos.client import Link
from iworkflow.dbos.errors import FailedFlowError
from iworkflow.dbos.host import DbosHost
from iworkflow.dbos.notifier import ended, queued

log = logging.getLogger("iworkflow.dbos")

_TICK = 0.5
_SEARCH = 2.0
_FIRST_DELAY, _LONGEST_DELAY = 2.0, 60.0
_BEGIN_WITHIN = 15.0

_LOST = """SELECT workflow_uuid FROM dbos.workflow_status
    WHERE workflow_uuid = ANY($1::text[]) AND (status <> 'PENDING' OR executor_id <> $2)"""
_STRANGE = """SELECT workflow_uuid, name FROM dbos.workflow_status
    WHERE status = 'PENDING' AND executor_id = $1 AND name <> ALL($2::text[])"""
# Long after its claim, lest the queue's thread is only slow to begin what it claimed.
_NOT_BEGUN = """SELECT workflow_uuid FROM dbos.workflow_status
    WHERE status = 'PENDING' AND executor_id = $1 AND workflow_uuid <> ALL($2::text[])
        AND started_at_epoch_ms / 1000.0 < extract(epoch FROM now()) - $3::double precision"""
# A dispatch that came to nothing is not counted: the count tells whether one left rows of ours.
_GIVE_BACK = """UPDATE dbos.workflow_status SET status = 'ENQUEUED', owner_xid = NULL,
        started_at_epoch_ms = NULL, queue_name = $3,
        recovery_attempts = greatest(recovery_attempts - (NOT $4::boolean)::integer, 0)
    WHERE workflow_uuid = $1 AND status = 'PENDING' AND executor_id = $2"""
_TIDY = """WITH claims AS (DELETE FROM iwf.claim WHERE workflow_id = ANY($1::text[]))
    DELETE FROM iwf.attempt WHERE workflow_id = ANY($1::text[])"""


@dataclass(slots=True, eq=False)
class Run:
    """A dispatch that is going on."""

    id: str
    task: asyncio.Task[Any]
    host: DbosHost | None = None
    finishing: bool = False
    """Whether the flow has ended and DBOS is writing the outcome."""

    def drop(self) -> None:
        """End the dispatch without an outcome."""
        if self.host is not None:
            self.host.leaving = True
        self.task.cancel()


@dataclass(slots=True)
class _Returns:
    """Runs to give back, each with a delay that grows with every time."""

    times: dict[str, int] = field(default_factory=dict[str, int])
    due: dict[str, float] = field(default_factory=dict[str, float])
    begun: set[str] = field(default_factory=set[str])
    """Those whose dispatch may have left rows of ours."""

    def plan(self, workflow_id: str, *, begun: bool) -> float:
        """Plan to give a run back and return when, in seconds from now."""
        if begun:
            self.begun.add(workflow_id)
        times = self.times.get(workflow_id, 0)
        delay = min(_FIRST_DELAY * 2.0 ** min(times, 9), _LONGEST_DELAY)
        self.times[workflow_id] = times + 1
        self.due[workflow_id] = time.monotonic() + delay
        return delay

    def ready(self) -> list[str]:
        """Take those whose time has come."""
        now = time.monotonic()
        ready = [workflow_id for workflow_id, due in self.due.items() if due <= now]
        for workflow_id in ready:
            del self.due[workflow_id]
        return ready


class Active:
    """All dispatches of this process, watched from `start` to `stop`."""

    def __init__(self, link: Link, app: AppDefinition, executor_id: str) -> None:
        self.news = News()
        self._link = link
        self._app = app
        self._executor_id = executor_id
        self._runs: set[Run] = set()
        self._returns = _Returns()
        self._untidy: list[str] = []
        self._look = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._next_search = 0.0
        self.closing = False

    def start(self) -> None:
        """Begin to watch."""
        self._task = asyncio.create_task(self._watch())

    def enter(self, workflow_id: str, task: asyncio.Task[Any]) -> Run:
        """Take in a dispatch, which DBOS runs in the task to its recorded end."""
        for earlier in self._runs:
            if earlier.id == workflow_id and not earlier.finishing:
                earlier.drop()
        run = Run(workflow_id, task)
        self._runs.add(run)
        self._link.wakeups.call(ended(workflow_id), self._look.set)
        task.add_done_callback(lambda _: self._leave(run))
        return run

    def give_back(self, workflow_id: str, *, begun: bool) -> float:
        """Give a run back to the queue later, and return in how many seconds.

        Args:
            workflow_id: the run.
            begun: whether its dispatch may have left rows of ours.
        """
        return self._returns.plan(workflow_id, begun=begun)

    async def drop_all(self, grace: float) -> None:
        """Let records and outcomes be written for `grace` seconds; end all dispatches."""
        self.closing = True
        deadline = time.monotonic() + grace
        while self._writing() and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        for run in self._runs:
            run.drop()
        tasks = [run.task for run in self._runs]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)

    async def return_strange(self) -> None:
        """Give back at once what this process cannot run."""
        await self._find_strange()
        for workflow_id in list(self._returns.due):
            await self._return(workflow_id)

    async def stop(self) -> None:
        """Watch no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _writing(self) -> bool:
        return any(run.finishing or (run.host and run.host.recording) for run in self._runs)

    def _leave(self, run: Run) -> None:
        self._runs.discard(run)
        self._link.wakeups.uncall(ended(run.id))
        if not run.finishing or run.task.cancelled():
            return
        failure = run.task.exception()
        if failure is not None and not isinstance(failure, FailedFlowError):
            self.give_back(run.id, begun=True)  # perhaps the outcome is not recorded
            return
        self._returns.times.pop(run.id, None)
        if run.host is not None and run.host.untidy:
            self._untidy.append(run.id)
        self._link.wakeups.announce(ended(run.id))

    async def _watch(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._look.wait(), _TICK)
            except TimeoutError:
                pass
            self._look.clear()
            try:
                await self._check()
            except Exception:
                log.exception("the watch over the running flows failed; it goes on")

    async def _check(self) -> None:
        await self._drop_lost()
        if time.monotonic() >= self._next_search:
            self._next_search = time.monotonic() + _SEARCH
            await self._find_strange()
            await self._find_not_begun()
        for workflow_id in self._returns.ready():
            await self._return(workflow_id)
        await self.tidy()

    async def _drop_lost(self) -> None:
        by_id = {run.id: run for run in self._runs if not run.finishing}
        if not by_id:
            return
        rows = await self._link.database.rows(_LOST, list(by_id), self._executor_id)
        for row in rows:
            run = by_id[row["workflow_uuid"]]
            if not run.finishing:
                run.drop()

    async def _find_strange(self) -> None:
        known = list(self._app.flows)
        for row in await self._link.database.rows(_STRANGE, self._executor_id, known):
            workflow_id = row["workflow_uuid"]
            if workflow_id not in self._returns.due:
                self._returns.plan(workflow_id, begun=False)
                why = unknown_flow(self._app, row["name"], workflow_id)
                self.news.tell(log.warning, workflow_id, why)

    async def _find_not_begun(self) -> None:
        """Plan to give back what DBOS claimed and does not know: its connection was cut just then.

        The row says that the run is ours and goes on, so nobody else would ever take it.
        """
        if self.closing:
            return
        busy = [*{run.id for run in self._runs}, *self._returns.due]
        rows = await self._link.database.rows(_NOT_BEGUN, self._executor_id, busy, _BEGIN_WITHIN)
        for row in rows:
            workflow_id = row["workflow_uuid"]
            delay = self._returns.plan(workflow_id, begun=False)
            log.warning(
                "run %r was claimed and never begun: it goes back to the queue in %g s",
                workflow_id,
                delay,
            )

    async def _return(self, workflow_id: str) -> None:
        if any(run.id == workflow_id for run in self._runs):
            return
        app, begun = self._app.app, workflow_id in self._returns.begun
        await self._link.database.execute(_GIVE_BACK, workflow_id, self._executor_id, app, begun)
        self._returns.begun.discard(workflow_id)
        # Woken first, this process would take again and again what it cannot run.
        self._link.wakeups.announce_to_others(queued(app))

    async def tidy(self) -> None:
        """Leave no rows of ended runs behind."""
        if self._untidy:
            untidy, self._untidy = self._untidy, []
            await self._link.database.execute(_TIDY, untidy)
