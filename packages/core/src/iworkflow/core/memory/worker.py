"""A worker of one app on a store: it takes runs, drives them, and hands them back."""

from __future__ import annotations

import asyncio
import logging

from iworkflow.core.checks import check_limit
from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD
from iworkflow.core.definition import AppDefinition
from iworkflow.core.flow.driver import DeadlinePassed, drive
from iworkflow.core.flow.news import News
from iworkflow.core.flow.placement import Misplaced, check_placed
from iworkflow.core.memory.clock import StoreClock, VirtualClock
from iworkflow.core.memory.host import MemoryBook, MemoryHost, Stage
from iworkflow.core.memory.store import MemoryStore, Run, default_store
from iworkflow.core.port import Outcome, RunInfo, RunStep, Status
from iworkflow.core.runtime import Runtime
from iworkflow.core.steps import Clock, StepRunner

log = logging.getLogger("iworkflow.memory")


class MemoryWorker:
    """A `port.WorkerEngine` over a store of this process.

    Args:
        store: where the runs lie.
        max_payload: how many bytes a value may have, encoded.
        steps: the app whose steps are run in place of the real ones; for the testing kit.
        stage: what may hold the operations of its runs; for the testing kit.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
        steps: AppDefinition | None = None,
        stage: Stage | None = None,
    ) -> None:
        check_limit("max_payload", max_payload)
        self._store = store
        self._max_payload = max_payload
        self._step_app = steps
        self._stage = stage
        self._app: AppDefinition | None = None
        self._runner: _Steps | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._served: dict[str, tuple[MemoryHost, asyncio.Task[None]]] = {}
        self._owned: dict[str, Run] = {}
        self._news = News()
        self._began = 0
        self._broken: asyncio.Future[BaseException] | None = None

    @property
    def hosts(self) -> dict[str, MemoryHost]:
        """The dispatches that are going on, by the id of their run."""
        return {run_id: host for run_id, (host, _) in self._served.items()}

    @property
    def trouble(self) -> BaseException | None:
        """What broke the worker, if something did."""
        broken = self._broken
        return broken.result() if broken is not None and broken.done() else None

    async def start(self, app: AppDefinition) -> None:
        """Begin to take the runs of the app."""
        self._loop = asyncio.get_running_loop()
        self._broken = self._loop.create_future()
        self._app = app
        self._began = self._store.tick()
        self._runner = _Steps(self._step_app or app, self._store.clock, self._max_payload)
        self._store.join(app.app, self)

    async def broken(self) -> BaseException:
        """Wait until a run breaks the worker: a fault of the engine, not of a flow."""
        assert self._broken is not None
        return await asyncio.shield(self._broken)

    async def stop(self, grace: float) -> None:
        """Take nothing new, let steps finish for `grace` seconds, hand the runs back."""
        if self._app is None or self._runner is None:
            return
        self._store.leave(self._app.app, self)
        await self._runner.drain(grace)
        await self._drop_all()
        self._runner.close()
        self._app = None

    async def crash(self) -> None:
        """Drop every dispatch at once, as a kill does: from this call on nothing is recorded.

        The runs stay unowned; a `start` takes them up again.
        """
        if self._app is None or self._runner is None:
            return
        self.freeze()
        await self._drop_all(release=False)
        self._runner.close()

    def freeze(self) -> None:
        """Take and record nothing more from now on; `crash` does the rest."""
        if self._app is not None:
            self._store.leave(self._app.app, self)
        for host, _ in self._served.values():
            host.drop()

    def offer(self, run: Run) -> bool:
        """Take the run if this worker is up and is not too old for it."""
        if self._app is None or self._loop is not asyncio.get_running_loop():
            return False
        try:
            check_placed(self._app, run.info(self._began))
        except Misplaced as why:
            self._news.tell(log.warning, run.id, str(why))
            return False
        if run.patches is None:
            run.patches = frozenset(self._app.patches)
            run.born = self._store.tick()
        run.owner = self
        self._owned[run.id] = run
        self._dispatch(run)
        return True

    def lost(self, run: Run) -> None:
        """End the dispatch of a run that was ended from outside; its results are dropped."""
        self._owned.pop(run.id, None)
        if run.id in self._served:
            host, task = self._served[run.id]
            host.drop()
            task.cancel()

    def _dispatch(self, run: Run) -> None:
        assert self._loop is not None
        assert self._runner is not None
        host = MemoryHost(self._store, run, self._runner, self._stage)
        task = self._loop.create_task(self._serve(run, host), name=f"iworkflow {run.id}")
        self._served[run.id] = host, task
        task.add_done_callback(lambda _: self._forget(run, host))

    def _forget(self, run: Run, host: MemoryHost) -> None:
        if run.id in self._served and self._served[run.id][0] is host:
            del self._served[run.id]

    async def _serve(self, run: Run, host: MemoryHost) -> None:
        assert self._app is not None
        try:
            outcome = await drive(host, self._app, max_payload=self._max_payload)
        except DeadlinePassed:
            self._store.expire(run)
        except Exception as error:
            if host.alive:
                self._break(run, error)
        else:
            await self._finish(run, host, outcome)

    async def _finish(self, run: Run, host: MemoryHost, outcome: Outcome) -> None:
        await host.ending()
        self._disown(run)
        self._store.expire(run)
        status = Status.COMPLETED if outcome.error is None else Status.FAILED
        self._store.close(run, status, outcome)

    def _disown(self, run: Run) -> None:
        self._owned.pop(run.id, None)
        if run.owner is self:
            run.owner = None

    def _break(self, run: Run, error: Exception) -> None:
        log.error("flow %r broke its worker", run.id, exc_info=error)
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(error)

    async def _drop_all(self, *, release: bool = True) -> None:
        served = list(self._served.values())
        for host, task in served:
            host.drop()
            task.cancel()
        await asyncio.gather(*(task for _, task in served), return_exceptions=True)
        for run in list(self._owned.values()):
            self._disown(run)
            if release and run.running:
                self._store.offer(run)


class _Steps:
    """Runs steps; while an attempt runs, virtual time stands still."""

    def __init__(self, app: AppDefinition, clock: StoreClock, max_payload: int) -> None:
        self._clock = clock
        self._runner = StepRunner(app, clock=_step_clock(clock), max_payload=max_payload)

    async def run(self, operation: RunStep, run: RunInfo, book: MemoryBook) -> Outcome:
        with self._clock.busy():
            return await self._runner.run(operation, run, book)

    async def drain(self, grace: float) -> None:
        await self._runner.drain(grace)

    def close(self) -> None:
        self._runner.close()


class _RestingClock:
    """Virtual time as a step sees it: it goes on while the step waits for its next attempt."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.now()

    async def sleep(self, seconds: float) -> None:
        with self._clock.resting():
            await self._clock.sleep(seconds)


def _step_clock(clock: StoreClock) -> Clock:
    return _RestingClock(clock) if isinstance(clock, VirtualClock) else clock


class MemoryRuntime(Runtime):
    """A worker of the memory engine.

    Args:
        store: the store that it shares with clients and other runtimes. Default: the one of
            this process.
        max_payload: how many bytes a value may have, encoded.
    """

    def __init__(
        self, store: MemoryStore | None = None, *, max_payload: int = DEFAULT_MAX_PAYLOAD
    ) -> None:
        self.store = default_store() if store is None else store
        super().__init__(MemoryWorker(self.store, max_payload=max_payload))
