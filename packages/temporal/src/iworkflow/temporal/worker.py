"""The worker: the Temporal workers of one app in this process.

One takes flows and steps from the app's task queue, one more each pool's steps, and one the
adapter's own activities, without a limit of the steps'. How many steps are taken is one limit over
those queues; which of them runs is core's to decide: an attempt takes its slot in the activity,
before its time begins to count.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.worker import PollerBehaviorAutoscaling, Worker

from iworkflow.core.definition import AppDefinition
from iworkflow.core.steps import StepRunner, WallClock
from iworkflow.temporal import access, quiet, sandbox
from iworkflow.temporal.attempts import StepActivity
from iworkflow.temporal.client import Link
from iworkflow.temporal.heart import Heart
from iworkflow.temporal.hosting import define
from iworkflow.temporal.names import pool_queue, service_queue
from iworkflow.temporal.parking import Reporter
from iworkflow.temporal.services import Services
from iworkflow.temporal.settings import Settings, Tuning, connect
from iworkflow.temporal.slots import QueueSlots, SharedLimit, tuner

log = logging.getLogger("iworkflow.temporal")

_STICKY = timedelta(seconds=5)
_MANY = 10_000
# A frozen process is still given what its open polls ask for: an idle one keeps few of them.
_POLLS = PollerBehaviorAutoscaling(minimum=1, maximum=20, initial=1)
# We end the activities ourselves: how long they may take is known only at the stop.
_GRACE = timedelta(days=1)


class TemporalWorker:
    """A `port.WorkerEngine`.

    Args:
        settings: where the server is.
        tuning: how the worker works.
    """

    def __init__(self, settings: Settings, tuning: Tuning) -> None:
        self._settings = settings
        self._tuning = tuning
        self._broken: asyncio.Future[BaseException] | None = None
        self._parts: _Parts | None = None

    async def start(self, app: AppDefinition) -> None:
        """Connect, try the flows in the sandbox, and take runs.

        Raises:
            ConnectionError: the server cannot be reached, or refuses.
            RuntimeError: the sandbox refuses a module that defines flows.
        """
        self._broken = asyncio.get_running_loop().create_future()
        hosted = sandbox.Hosted.of(app, self._tuning)
        runner = sandbox.HostRunner.of(hosted)
        flows = define(hosted, app)
        client = await connect(self._settings)
        try:
            self._parts = _Parts(client, hosted, runner, flows)
        except RuntimeError as error:
            # Temporal has loaded the flows into a sandbox once, as for a run.
            cause = error.__cause__
            if cause is None:
                raise
            raise RuntimeError(sandbox.refusal(hosted, cause)) from cause
        self._parts.begin(self._break)

    async def broken(self) -> BaseException:
        """Wait until something breaks the worker, and return it."""
        assert self._broken is not None
        return await asyncio.shield(self._broken)

    async def stop(self, grace: float) -> None:
        """Take nothing new, let steps finish for `grace` seconds, hand the rest on."""
        if self._parts is not None:
            await self._parts.end(grace)

    def _break(self, error: BaseException) -> None:
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(error)


class _Parts:
    """What runs between the start and the stop."""

    def __init__(
        self, client: Client, hosted: sandbox.Hosted, runner: sandbox.HostRunner, flows: type
    ) -> None:
        app, tuning = hosted.app, hosted.tuning
        self.steps = StepRunner(app, clock=WallClock(), max_payload=tuning.max_payload)
        self.heart = Heart(client)
        self.activity = StepActivity(app, self.steps, self.heart)
        self.ledger = hosted.ledger
        self.reporter = Reporter(client, asyncio.get_running_loop())
        self.ledger.found = self.reporter.found
        self.services = Services(Link(client), self.heart)
        limit = SharedLimit(app.max_concurrent_steps)
        self.workers = [
            _worker(
                client,
                app.app,
                workflows=[flows],
                workflow_runner=runner,
                activities=[self.activity.run],
                max_cached_workflows=tuning.max_cached_workflows,
                tuner=tuner(QueueSlots(limit, app.max_concurrent_steps)),
            ),
            *(
                _worker(
                    client,
                    pool_queue(app.app, pool),
                    activities=[self.activity.run],
                    tuner=tuner(QueueSlots(limit, size)),
                )
                for pool, size in app.pools.items()
            ),
            _worker(
                client,
                service_queue(app.app),
                activities=[self.services.describe, self.services.result],
                max_concurrent_activities=_MANY,
            ),
        ]
        self.running: list[asyncio.Task[None]] = []
        self.watching = asyncio.create_task(access.refused(client))

    def begin(self, broke: Any) -> None:
        """Begin to take runs."""
        quiet.hush()
        self.heart.start()
        self.watching.add_done_callback(lambda done: _refused(done, broke))
        for worker in self.workers:
            task = asyncio.create_task(worker.run())
            task.add_done_callback(lambda done: _ended(done, broke))
            self.running.append(task)

    async def end(self, grace: float) -> None:
        """Stop in the order that loses nothing and hands all runs on."""
        self.watching.cancel()
        stops = [asyncio.create_task(worker.shutdown()) for worker in self.workers]
        try:
            await self.steps.drain(grace)
            await self.activity.hand_on()
            await self.services.hand_on()
            await asyncio.gather(*stops, return_exceptions=True)
            await asyncio.gather(*self.running, return_exceptions=True)
            await asyncio.to_thread(self.ledger.close)
        finally:
            self.steps.close()
            await asyncio.to_thread(self.heart.stop)
            await self.reporter.stop()


def _worker(client: Client, queue: str, **options: Any) -> Worker:
    return Worker(
        client,
        task_queue=queue,
        graceful_shutdown_timeout=_GRACE,
        sticky_queue_schedule_to_start_timeout=_STICKY,
        workflow_task_poller_behavior=_POLLS,
        activity_task_poller_behavior=_POLLS,
        **options,
    )


def _refused(task: asyncio.Task[Exception], broke: Any) -> None:
    if not task.cancelled():
        broke(task.exception() or task.result())


def _ended(task: asyncio.Task[None], broke: Any) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        broke(error)
