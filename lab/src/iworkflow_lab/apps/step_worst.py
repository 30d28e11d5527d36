"""The worst that steps do: they block, swallow, leak, and raise what would end a program."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from iworkflow.core import heartbeat, last_heartbeat, step_attempt, step_info, step_signal
from iworkflow_lab.apps.step_work import Refused, tell
from iworkflow_lab.effects import Effect, here
from iworkflow_lab.gates import begin, blocked, end, free, held, is_let_go, let_go


async def blocks(seconds: float) -> str:
    """Hold the event loop."""
    effect = begin("blocks")
    time.sleep(seconds)  # noqa: ASYNC251 - that is what it is for
    return end(effect, "done")


async def deaf(key: str) -> str:
    """Swallow every cancel until the gate opens; return the id of the execution."""
    effect = begin(key)
    while not is_let_go(effect):
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            tell("ignored", effect)
    return end(effect, effect.call)


async def leaks() -> list[Any]:
    """Leave a task and a thread behind that report later; the next attempt outwaits them."""
    attempt = step_attempt()
    effect = begin(str(attempt))
    if attempt == 1:
        heartbeat("mine")
        _leak_task(effect)
        _leak_thread(effect)
        end(effect)
        raise Refused("they go on")
    while len([e for e in here().read(effect.run) if e.what == "leaked"]) < 2:
        await asyncio.sleep(0.02)
    tell("outwaited", effect)
    await let_go(effect)
    end(effect)
    return [attempt, last_heartbeat()]


_leaked: set[asyncio.Task[None]] = set()


def _leak_task(effect: Effect) -> None:
    async def late() -> None:
        while "2" not in {e.key for e in here().read(effect.run)}:
            await asyncio.sleep(0.02)
        heartbeat("a task's")
        tell("leaked", effect, f"task: {whose()}")
        raise RuntimeError("nobody hears this")

    task = asyncio.create_task(late())
    _leaked.add(task)
    task.add_done_callback(_leaked.discard)


def _leak_thread(effect: Effect) -> None:
    scope = copy_context()

    def late() -> None:
        while "2" not in {e.key for e in here().read(effect.run)}:
            time.sleep(0.02)
        scope.run(heartbeat, "a thread's")
        tell("outside", effect, "; ".join(outside()))
        tell("leaked", effect, f"thread: {scope.run(whose)}")

    threading.Thread(target=late, daemon=True).start()


def whose() -> str:
    """Tell which attempt this code belongs to, by what a step may ask."""
    return f"attempt {step_attempt()} of {step_info().step}, read {last_heartbeat()}"


ASKED: list[Callable[[], Any]] = [heartbeat, last_heartbeat, step_attempt, step_info, step_signal]


async def itself(key: str) -> list[str]:
    """Report the key and fail; then wait, and tell the key and whose attempt this is."""
    if step_attempt() == 1:
        heartbeat(key)
        raise Refused("the next one tells")
    await held(key)
    return [key, whose()]


def sync_itself(key: str) -> list[str]:
    """Do the same in a thread."""
    if step_attempt() == 1:
        heartbeat(key)
        raise Refused("the next one tells")
    blocked(key)
    return [key, whose()]


def outside() -> list[str]:
    """Ask everything that a step may ask; return how it is refused outside of one."""
    told: list[str] = []
    for ask in ASKED:
        try:
            told.append(f"{ask.__name__}() gave {ask()!r}")
        except RuntimeError as error:
            told.append(str(error))
    return told


async def ends_all(kind: str) -> int:
    """Raise in the first attempt what would end a program; return the second's number."""
    free(f"{kind} {step_attempt()}")
    if step_attempt() == 1:
        ENDS[kind]()
    return step_attempt()


def sync_ends_all(kind: str) -> int:
    """Do the same in a thread."""
    free(f"{kind} {step_attempt()}")
    if step_attempt() == 1:
        ENDS[kind]()
    return step_attempt()


def _raise(error: BaseException) -> Callable[[], None]:
    def now() -> None:
        raise type(error)(*error.args)

    return now


def _cancel_myself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


ENDS: dict[str, Callable[[], Any]] = {
    "SystemExit": lambda: sys.exit(3),
    "KeyboardInterrupt": _raise(KeyboardInterrupt()),
    "CancelledError": _raise(asyncio.CancelledError("mine")),
    "GeneratorExit": _raise(GeneratorExit()),
    "StopIteration": _raise(StopIteration(5)),
    "BaseExceptionGroup": _raise(BaseExceptionGroup("both", [SystemExit(1), ValueError("two")])),
}


async def cancels_itself() -> int:
    """Cancel the task that runs the first attempt."""
    free(str(step_attempt()))
    if step_attempt() == 1:
        _cancel_myself()
        await asyncio.sleep(0)
    return step_attempt()
