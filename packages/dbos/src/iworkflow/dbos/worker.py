"""A worker of one app: DBOS launched and stopped in the right order, and its flows dispatched."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, TypeVar

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer
from iworkflow.core.checks import check_limit
from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD
from iworkflow.core.definition import AppDefinition
from iworkflow.core.flow.driver import DeadlinePassed, Misplaced, drive
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import Outcome
from iworkflow.core.steps import StepRunner, WallClock
from iworkflow.dbos import quiet, recovery, schema, takeover
from iworkflow.dbos.active import Active, Run
from iworkflow.dbos.client import Link
from iworkflow.dbos.connecting import Connector
from iworkflow.dbos.dispatch import Asked, load
from iworkflow.dbos.errors import FailedFlowError, LostRunError, is_gone, unreachable
from iworkflow.dbos.host import DbosHost
from iworkflow.dbos.notifier import queued
from iworkflow.dbos.queue import QueueListener
from iworkflow.dbos.settings import Location, Polling, application_version, locate

log = logging.getLogger("iworkflow.dbos")

T = TypeVar("T")

SILENT_AFTER = 10.0
_RECORD_GRACE = 5.0
_DATABASE_GRACE = 5.0
_IDLE_TRANSACTION = 5.0


class DbosWorker:
    """A `port.WorkerEngine`. DBOS allows one at a time in a process.

    Args:
        url: the database; None: `DBOS_SYSTEM_DATABASE_URL`, else the embedded Postgres.
        silent_after: seconds of silence after which other workers take over its runs.
        max_payload: how many bytes a value may have, encoded.
    """

    _current: ClassVar[DbosWorker | None] = None

    def __init__(
        self,
        url: str | None = None,
        *,
        silent_after: float = SILENT_AFTER,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
    ) -> None:
        check_limit("max_payload", max_payload)
        self._url = url
        self._silent_after = silent_after
        self._max_payload = max_payload
        self._undo: list[Callable[[], Awaitable[None]]] = []
        self._broken: asyncio.Future[BaseException] | None = None
        self._parts: _Parts | None = None
        self._connector: Connector | None = None
        """The engine, once it is launched."""

    async def start(self, app: AppDefinition) -> None:
        """Connect, launch DBOS, take over what silent workers left, and take runs.

        Raises:
            RuntimeError: a worker runs in this process already, or DBOS lacks what is needed.
            ConnectionError: the database cannot be reached or refuses the login.
        """
        self._occupy(app)
        recovery.check()
        loop = asyncio.get_running_loop()
        self._broken = loop.create_future()
        location = await asyncio.to_thread(locate, self._url)
        polling = Polling.from_environment()
        executor = takeover.Executor(
            takeover.executor_id(), app.app, self._silent_after, sorted(app.patches)
        )
        async with schema.launch_lock(location) as connection:
            await schema.migrate(location, connection)
            await takeover.beat(connection, executor)
            link = Link(location, polling)
            await link.open()
            self._undo.append(link.close)
            parts = self._parts = _Parts(app, link, executor, self._max_payload)
            self._undo.append(parts.close)
            dbos = self._launch(location, parts)
        queue = await DBOS.register_queue_async(
            app.app, polling_interval_sec=polling.queue, on_conflict="always_update"
        )
        parts.begin(loop, self._break)
        parts.listener.start(dbos, queue, ended=lambda e: _later(loop, self._break, e))

    async def broken(self) -> BaseException:
        """Wait until something breaks the worker, and return it."""
        assert self._broken is not None
        return await asyncio.shield(self._broken)

    async def stop(self, grace: float) -> None:
        """Take nothing new, let steps finish for `grace` seconds, hand the runs back."""
        try:
            if self._parts is not None:
                await self._parts.end(grace)
        finally:
            await self._close()

    def _occupy(self, app: AppDefinition) -> None:
        current = DbosWorker._current
        if current is not None and current is not self:
            raise RuntimeError(
                f"app {app.app!r}: a DBOS worker runs in this process already, and DBOS allows "
                "one; stop it first or start another process"
            )
        DbosWorker._current = self
        self._undo.append(self._vacate)

    async def _vacate(self) -> None:
        DbosWorker._current = None

    async def _close(self) -> None:
        failure: Exception | None = None
        while self._undo:
            try:
                await self._undo.pop()()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _launch(self, location: Location, parts: _Parts) -> DBOS:
        """Launch DBOS on this event loop, which it takes for its flows; the tables are there."""
        quiet.hush()
        connector = self._connector = Connector(location)
        dbos = DBOS(config=_config(location, parts, connector))
        self._undo.append(partial(_destroy, connector))
        for name in parts.app.flows:
            parts.register(name)
        if not parts.listener.polled:
            DBOS.listen_queues([])
        try:
            DBOS.launch()
        except OSError as error:
            raise unreachable(location, error) from error
        return dbos

    def _break(self, error: BaseException) -> None:
        if self._connector is not None and is_gone(error):
            self._connector.end()
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(error)


class _Parts:
    """What runs between the launch of DBOS and its end."""

    def __init__(
        self, app: AppDefinition, link: Link, executor: takeover.Executor, max_payload: int
    ) -> None:
        self.app = app
        self.link = link
        self.executor = executor
        self.max_payload = max_payload
        self.listener = QueueListener()
        self.steps = StepRunner(app, clock=WallClock(), max_payload=max_payload)
        self.active = Active(link, app, executor.id)
        self.heart: takeover.Heart | None = None
        self._queued = queued(app.app)

    def begin(
        self, loop: asyncio.AbstractEventLoop, broke: Callable[[BaseException], None]
    ) -> None:
        """Begin to beat, to watch and to listen."""
        wakeups = self.link.wakeups
        wakeups.call(self._queued, self.listener.wake)
        wakeups.start()
        self.active.start()
        self.heart = takeover.Heart(
            self.link.location,
            self.executor,
            taken_over=lambda: _later(loop, wakeups.announce, self._queued),
            gone=lambda error: _later(loop, broke, error),
        )
        self.heart.start()

    async def end(self, grace: float) -> None:
        """Stop in the order that loses nothing and hands all runs on."""
        await asyncio.to_thread(self.listener.stop)
        await self.steps.drain(grace)
        await self.active.drop_all(_RECORD_GRACE)
        if self.heart is not None:
            await asyncio.to_thread(self.heart.stop)
            await self._hand_on()

    async def close(self) -> None:
        """Close what `end` left."""
        self.steps.close()
        if self.heart is not None:
            await asyncio.to_thread(self.heart.stop)
        await self.active.stop()
        with contextlib.suppress(TimeoutError):  # what is left is found by whoever comes next
            async with asyncio.timeout(_DATABASE_GRACE):
                await self.active.tidy()
                await takeover.leave(self.link.database, self.executor)

    async def _hand_on(self) -> None:
        """Put the runs back into the queue; without a database, silence will do it."""
        try:
            async with asyncio.timeout(_DATABASE_GRACE):
                await self.active.return_strange()
                await takeover.write_births(self.link.database, self.executor)
                await in_thread(recovery.hand_on, self.executor.id)
        except TimeoutError:
            log.warning(
                "no database to hand the runs back; others take over after %g s of silence",
                self.executor.silent_after,
            )
        self.link.wakeups.announce(self._queued)

    def register(self, flow: str) -> None:
        """Make DBOS know a flow."""

        async def run(*args: JsonValue) -> JsonValue:
            return await self._dispatch(flow, args)

        DBOS.workflow(name=flow, max_recovery_attempts=None)(run)

    async def _dispatch(self, flow: str, args: tuple[JsonValue, ...]) -> JsonValue:
        task = asyncio.current_task()
        workflow_id = DBOS.workflow_id
        assert task is not None
        assert workflow_id is not None
        if self.active.closing:
            raise asyncio.CancelledError
        run = self.active.enter(workflow_id, task)
        try:
            outcome = await self._drive(run, flow, args)
        except LostRunError:
            outcome = None
        except Misplaced as why:
            outcome = None
            self.active.give_back(workflow_id, begun=False)
            self.active.news.tell(log.warning, workflow_id, str(why))
        except DeadlinePassed:
            outcome = None
            await self.link.end(workflow_id)
        except Exception:
            outcome = None
            delay = self.active.give_back(workflow_id, begun=run.host is not None)
            log.exception(
                "flow %r: the engine failed; the run is tried again in %g s", workflow_id, delay
            )
        if outcome is None:
            raise asyncio.CancelledError
        run.finishing = True
        if outcome.error is not None:
            raise FailedFlowError(outcome.error)
        return outcome.value

    async def _drive(self, run: Run, flow: str, args: tuple[JsonValue, ...]) -> Outcome | None:
        workflow_id, database = run.id, self.link.database
        asked = Asked(flow, workflow_id, args)
        dispatch = await load(database, self.executor.id, self.app, asked)
        if dispatch is None:
            return None
        host = run.host = DbosHost(self.link, self.steps, dispatch)
        deadline = dispatch.info.deadline
        _check(workflow_id, deadline)
        limit = asyncio.timeout(None if deadline is None else deadline - time.time())
        try:
            async with limit:
                outcome = await drive(host, self.app, max_payload=self.max_payload)
        except TimeoutError:
            if limit.expired():
                raise DeadlinePassed(workflow_id) from None
            raise
        _check(workflow_id, deadline)
        return outcome


def _check(workflow_id: str, deadline: float | None) -> None:
    if deadline is not None and time.time() >= deadline:
        raise DeadlinePassed(workflow_id)


def _config(location: Location, parts: _Parts, connector: Connector) -> DBOSConfig:
    return {
        "name": parts.app.app,
        "system_database_url": location.url,
        "application_version": application_version(parts.app.app),
        "executor_id": parts.executor.id,
        "serializer": DBOSPortableJSONSerializer(),
        "log_level": "WARNING",
        "run_migrations": False,
        "db_engine_kwargs": {"creator": connector},
        # A frozen process must not hold the lock of a row for long.
        "sys_db_idle_transaction_timeout_sec": _IDLE_TRANSACTION,
    }


async def _destroy(connector: Connector) -> None:
    """End DBOS, in a thread: on the loop it would block what it waits for.

    DBOS has made its own thread pool the loop's; afterwards the loop gets a working one again.
    """
    connector.end()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio"))
    await asyncio.to_thread(DBOS.destroy, destroy_registry=True)
    quiet.unhush()


async def in_thread(call: Callable[..., T], *args: Any) -> T:
    """Run a blocking call in a thread that keeps nobody from leaving: DBOS may retry for ever."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def body() -> None:
        try:
            result = call(*args)
        except Exception as error:
            _later(loop, _settle, done.set_exception, error)
        else:
            _later(loop, _settle, done.set_result, result)

    def _settle(settle: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            settle(value)

    threading.Thread(target=body, daemon=True).start()
    return await done


def _later(loop: asyncio.AbstractEventLoop, call: Callable[..., Any], *args: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(call, *args)
