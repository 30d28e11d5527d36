"""A worker of one app in this process: start it, wait for its end, stop it."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from iworkflow.core.codec import require_msgspec
from iworkflow.core.options import Duration, seconds
from iworkflow.core.watchdog import Watchdog

if TYPE_CHECKING:
    from iworkflow.core.definition import AppDefinition
    from iworkflow.core.port import WorkerEngine

DEFAULT_GRACE = 10.0


class Runtime:
    """Runs one app on an engine, once, from its start to its stop.

    Making one connects to nothing. Its methods belong to one event loop. From its start to its
    stop, flow code that holds the event loop for over a second is named in a warning.

    Args:
        worker: the engine's side.
    """

    def __init__(self, worker: WorkerEngine) -> None:
        self._worker = worker
        self._watchdog = Watchdog()
        self._starting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None

    async def start(self, app: AppDefinition) -> None:
        """Connect and begin to take runs; return once runs are taken.

        A failure or a cancel closes what was opened, is raised, and makes `done` raise it.

        Raises:
            RuntimeError: the runtime was started before, or was stopped meanwhile.
            ConnectionError: the engine's server cannot be reached.
            ImportError: msgspec is not installed.
        """
        if self._starting is not None:
            raise RuntimeError(
                "this runtime was started before; it runs one app once, make another"
            )
        if self._is_stopping():
            raise RuntimeError("this runtime is stopped; make another")
        self._starting = asyncio.create_task(self._begin(app))
        try:
            await self._starting
        except BaseException as error:
            if not self._is_stopping():
                self._fail(error, "the start of this runtime was cancelled")
                await self._close_after(error)
                raise
            if _cancelled_from_outside():
                raise
        if self._is_stopping():
            await self.stop()
            raise RuntimeError("this runtime was stopped before it had started") from None
        self._watching = asyncio.create_task(self._watch())

    async def done(self) -> None:
        """Wait until the worker is stopped. Any number of tasks may wait, before the start too.

        A worker that broke takes no runs any more, but still has to be stopped.

        Raises:
            BaseException: what broke the worker, kept its start from succeeding, or made its
                stop fail; the first of them.
        """
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    async def stop(self, grace: Duration = DEFAULT_GRACE) -> None:
        """Take nothing new, let running steps finish, hand the runs back to other workers.

        The first call stops the worker; further ones wait for it and have the same outcome. A
        cancel of a caller leaves the shutdown going on. It ends `done`, also when it fails. A
        start that is still going on is given up.

        Args:
            grace: how long steps may take to finish; what runs then is cancelled.

        Raises:
            Exception: what made the shutdown fail.
        """
        limit = seconds("grace", grace, zero=True)
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._shut_down(limit))
        await asyncio.shield(self._stopping)

    def running(
        self, app: AppDefinition, *, grace: Duration = DEFAULT_GRACE
    ) -> AbstractAsyncContextManager[Self]:
        """Start at `async with`, stop at its end.

        When the worker breaks inside the block, the block is cancelled and what broke the worker
        is raised in its place. A cancel from outside stays a cancel. An error of the shutdown is
        raised, unless the block ends in an error already: then it is a note on that.

        Args:
            app: what to run.
            grace: how long steps may take to finish at the end.
        """
        return _Running(self, app, seconds("grace", grace, zero=True))

    async def _begin(self, app: AppDefinition) -> None:
        require_msgspec()
        self._watchdog.start()
        await self._worker.start(app)

    def _is_stopping(self) -> bool:
        return self._stopping is not None

    async def _close_after(self, error: BaseException) -> None:
        try:
            await self.stop(0)
        except Exception as second:
            error.add_note(_note(second))

    async def _watch(self) -> None:
        try:
            failure = await self._worker.broken()
        except Exception as error:
            failure = error
        self._fail(failure, "the worker was cancelled")
        self._ended.set()

    async def _shut_down(self, grace: float) -> None:
        try:
            if self._starting is not None:
                await _cancel(self._starting)
                await self._worker.stop(grace)
        except BaseException as error:
            self._fail(error, "the shutdown of this runtime was cancelled")
            raise
        finally:
            self._watchdog.stop()
            self._ended.set()
            if self._watching is not None:
                await _cancel(self._watching)

    def _fail(self, error: BaseException, cancelled: str) -> None:
        """Keep the first failure; a cancel must not reach those who wait in `done` as theirs."""
        if self._failure is None:
            is_cancel = isinstance(error, asyncio.CancelledError)
            self._failure = RuntimeError(cancelled) if is_cancel else error


_Runtime = TypeVar("_Runtime", bound=Runtime)


class _Running(AbstractAsyncContextManager[_Runtime]):
    """The block of `Runtime.running`: a break of the worker interrupts it."""

    def __init__(self, runtime: _Runtime, app: AppDefinition, grace: float) -> None:
        self._runtime = runtime
        self._app = app
        self._grace = grace
        self._broke: BaseException | None = None

    async def __aenter__(self) -> _Runtime:
        await self._runtime.start(self._app)
        body = asyncio.current_task()
        assert body is not None
        self._body = body
        self._cancelling = body.cancelling()
        self._guard = asyncio.create_task(self._interrupt())
        return self._runtime

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._guard.cancel()
        outcome = self._settle(error)
        try:
            await self._runtime.stop(self._grace)
            if outcome is None:
                await self._runtime.done()
        except Exception as second:
            if outcome is None:
                raise
            if second is not outcome:
                outcome.add_note(_note(second))
        if outcome is not None and outcome is not error:
            raise outcome from (None if isinstance(error, asyncio.CancelledError) else error)

    async def _interrupt(self) -> None:
        try:
            await self._runtime.done()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._broke = error
            self._body.cancel()

    def _settle(self, error: BaseException | None) -> BaseException | None:
        """Return what the block ends in: its own error, or what broke the worker."""
        if self._broke is None:
            return error
        outside = self._body.uncancel() > self._cancelling
        return error if outside and isinstance(error, asyncio.CancelledError) else self._broke


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _note(error: BaseException) -> str:
    return f"the worker did not stop cleanly either: {type(error).__name__}: {error}"


async def _cancel(task: asyncio.Task[None]) -> None:
    """End a task and wait for it; what it ends in is not of interest here."""
    task.cancel()
    await asyncio.wait([task])
