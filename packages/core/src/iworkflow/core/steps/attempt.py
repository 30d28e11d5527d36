"""One attempt of a step, safe against whatever the step does.

A step may raise `SystemExit` or `asyncio.CancelledError`, swallow its cancel, block its thread
for ever or return what is no value: each of these is a failed attempt or a dropped result, and
never the end of the worker.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD, check_size
from iworkflow.core.errors import Failure
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.options import StepPolicy
from iworkflow.core.steps.describe import (
    StepError,
    describe_exception,
    final_error,
    text_of,
    timed_out,
)
from iworkflow.core.steps.scope import StepScope, step_scope
from iworkflow.core.steps.threads import StepThreads

if TYPE_CHECKING:
    from iworkflow.core.definition import StepDefinition

_log = logging.getLogger("iworkflow.steps")

CLEANUP_TIME = 3.0
"""For how many seconds a cancelled attempt may clean up before it is left to itself."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The encoded result of an attempt."""

    value: JsonValue


async def run_attempt(
    step: StepDefinition,
    args: Sequence[JsonValue],
    scope: StepScope,
    *,
    policy: StepPolicy,
    threads: StepThreads,
    max_payload: int = DEFAULT_MAX_PAYLOAD,
    on_end: Callable[[], None] = lambda: None,
) -> Returned | StepError:
    """Run one attempt: decode the arguments, call the step, encode its result.

    An async step runs in a task of its own, a sync one in a thread; if that returns an
    awaitable, it is awaited on the event loop. An attempt that takes longer than
    `policy.timeout`, or does not beat for `policy.heartbeat_timeout`, is cancelled and failed.
    A result that came before the attempt was cancelled counts, one that comes after is dropped.

    A cancelled attempt has `CLEANUP_TIME` for its clean-up; one that goes on after that, and a
    sync step, whose thread cannot be stopped, is left to itself: it reports nothing any more,
    and `on_end` is called, on the event loop, once it is really over. A cancel of this
    coroutine cancels the attempt and is raised again, whatever the step makes of it.
    """
    ends = _Ends(on_end)
    call = _Call(step, args, policy, threads, max_payload, ends)
    context = copy_context()
    context.run(step_scope.set, scope)
    work = asyncio.get_running_loop().create_task(
        call.run(), name=f"step {step.name} of {scope.info.workflow_id}", context=context
    )
    work.add_done_callback(lambda _: ends.one_ended())
    try:
        late = await _watch(work, scope, policy)
        if late is not None:
            reason, error = late
            await _cancel(work, scope, reason)
            return error
        return _result(work, policy)
    except asyncio.CancelledError as cancelled:
        await _cancel(work, scope, str(cancelled) or "cancelled")
        raise
    finally:
        scope.close()


async def _watch(
    work: asyncio.Task[Any], scope: StepScope, policy: StepPolicy
) -> tuple[str, StepError] | None:
    """Wait for the end of the work, or tell that it took too long."""
    end = time.monotonic() + policy.timeout
    quiet = policy.heartbeat_timeout
    scope.restart_clock()
    while not work.done():
        now = time.monotonic()
        if now >= end:
            message = f"the attempt took longer than its timeout of {policy.timeout:g} s"
            return "timeout", timed_out(message)
        if quiet is not None and now >= scope.beat_at + quiet:
            message = f"the attempt did not beat for its heartbeat_timeout of {quiet:g} s"
            return "heartbeat-timeout", timed_out(message)
        until = end if quiet is None else min(end, scope.beat_at + quiet)
        await asyncio.wait({work}, timeout=until - now)
    return None


async def _cancel(work: asyncio.Task[Any], scope: StepScope, reason: str) -> None:
    scope.signal.cancel(reason)
    work.cancel(reason)
    if not work.done():
        await asyncio.wait({work}, timeout=CLEANUP_TIME)
    if not work.done():
        info = scope.info
        _log.warning(
            "step %r of run %r ignores its cancel (%s); it is left to itself and keeps its slot",
            info.step,
            info.workflow_id,
            reason,
        )


def _result(work: asyncio.Task[Returned | StepError], policy: StepPolicy) -> Returned | StepError:
    if work.cancelled():
        return describe_exception(asyncio.CancelledError("the step cancelled itself"), policy)
    return work.result()


class _Ends:
    """Calls `on_end` once all parts of an attempt, its task and its thread, are over."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._open = 1

    def one_begins(self) -> None:
        self._open += 1

    def one_ended(self) -> None:
        self._open -= 1
        if not self._open:
            self._on_end()


@dataclass(frozen=True, slots=True)
class _Raised:
    exception: BaseException


@dataclass(frozen=True, slots=True)
class _Call:
    step: StepDefinition
    args: Sequence[JsonValue]
    policy: StepPolicy
    threads: StepThreads
    max_payload: int
    ends: _Ends

    # Everything is caught below, a user's `__post_init__` included: a SystemExit that leaves a
    # task ends the whole event loop.

    async def run(self) -> Returned | StepError:
        arguments = self._arguments()
        if isinstance(arguments, StepError):
            return arguments
        result = await self._invoke(arguments)
        if isinstance(result, _Raised):
            return describe_exception(result.exception, self.policy, max_payload=self.max_payload)
        return self._encoded(result)

    def _arguments(self) -> Sequence[Any] | StepError:
        try:
            return self.step.signature.decode_args(self.args, where=f"step {self.step.name!r}")
        except Failure as failure:
            return describe_exception(failure)
        except BaseException as error:
            return final_error(text_of(error), "DecodeError", error)

    async def _invoke(self, arguments: Sequence[Any]) -> Any:
        try:
            if self.step.is_async:
                result = self.step.fn(*arguments)
            else:
                result = await self._in_thread(arguments)
            return await result if inspect.isawaitable(result) else result
        except BaseException as exc:
            return _Raised(exc)

    async def _in_thread(self, arguments: Sequence[Any]) -> Any:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        context = copy_context()

        def finish(result: Any) -> None:
            self.ends.one_ended()
            if done.done():
                _discard(result)
            else:
                done.set_result(result)

        def job() -> None:
            try:
                result = context.run(self.step.fn, *arguments)
            except BaseException as exc:
                result = _Raised(exc)
            try:
                loop.call_soon_threadsafe(finish, result)
            except RuntimeError:  # the loop is closed: nobody waits any more
                _discard(result)

        self.threads.submit(job)
        self.ends.one_begins()
        return await done

    def _encoded(self, result: Any) -> Returned | StepError:
        where = f"step {self.step.name!r}"
        try:
            value = self.step.signature.encode_result(result, where=where)
            check_size(value, self.max_payload, where=f"{where}: result")
        except Failure as failure:
            return describe_exception(failure)
        except BaseException as error:
            _discard(result)
            return final_error(text_of(error), "EncodeError", error)
        return Returned(value)


def _discard(result: Any) -> None:
    if inspect.iscoroutine(result):
        result.close()
