"""Steps of the step scenarios: those that fail, wait, report, and misbehave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from iworkflow.core import (
    Failure,
    heartbeat,
    last_heartbeat,
    non_retryable,
    step_attempt,
    step_info,
    step_signal,
)
from iworkflow_lab.apps.kinds import KINDS, Everything, shown
from iworkflow_lab.effects import Effect, here
from iworkflow_lab.gates import begin, blocked, end, free, held

LONG = 3600.0


class Refused(Exception):
    """An exception of the app's own."""


class RefusedTwice(Refused):
    """A subclass of it."""


class Costly(Exception):
    """Its constructor takes what `str` does not give back."""

    def __init__(self, amount: int, *, currency: str) -> None:
        super().__init__(amount)
        self.currency = currency

    def __str__(self) -> str:
        return f"{self.args[0]} {self.currency}"


def tell(what: str, effect: Effect, result: str = "") -> None:
    """Write a further line about an execution."""
    here().append(replace(effect, what=what, result=result, at=time.time()))


# Values.


def _echo_of(name: str, hint: Any) -> Callable[..., Any]:
    def echo(value: Any) -> Any:
        free(name, result=shown(value))
        return value

    echo.__annotations__ = {} if hint is Any else {"value": hint, "return": hint}
    return echo


ECHOES = {f"echo_{name}": _echo_of(name, hint) for name, (hint, _) in KINDS.items()}
"""A step for each kind: it logs what it was given and returns it."""


async def everything(value: Everything) -> Everything:
    """Report the value as a heartbeat; in the next attempt return what was reported."""
    free(str(step_attempt()), result=repr(value))
    reported = last_heartbeat(Everything)
    if reported is None:
        heartbeat(value)
        raise Failure("the next one returns it")
    return reported


async def detailed(value: Everything) -> None:
    """Fail with the value as details."""
    free("detailed", result=repr(value))
    raise non_retryable("look at the details", type="Detailed", details=value)


async def nothing() -> None:
    """Return nothing."""
    free("nothing")


def sync_nothing() -> None:
    """Do the same in a thread."""
    free("nothing")


# Attempts.


async def work(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await held(key, result=key)


def sync_work(key: str) -> str:
    """Block a thread until the gate of `key` opens."""
    return blocked(key, result=key)


async def flaky(failures: int) -> int:
    """Fail that many times, then return the number of the attempt."""
    attempt = step_attempt()
    free(str(attempt))
    if attempt <= failures:
        raise Refused(f"attempt {attempt} of {step_info().workflow_id}")
    return attempt


async def hangs(times: int) -> int:
    """Hang in so many attempts; return the number of the first that does not."""
    attempt = step_attempt()
    if attempt <= times:
        await _hang(begin(str(attempt)))
    free(str(attempt))
    return attempt


async def _hang(effect: Effect) -> None:
    try:
        await asyncio.sleep(LONG)
    except asyncio.CancelledError:
        tell("cancel", effect, str(step_signal().reason))
        raise


async def silent(beats: int) -> int:
    """Beat so often, 0.1 s apart, then hang silently; from the third attempt on return."""
    attempt = step_attempt()
    effect = begin(str(attempt))
    for n in range(beats):
        heartbeat(n)
        await asyncio.sleep(0.1)
    if attempt < 3:
        await _hang(effect)
    end(effect)
    return attempt


async def reports() -> list[Any]:
    """Report 7 and fail; then report nothing and fail; return what each attempt read."""
    attempt = step_attempt()
    free(f"{attempt} read {last_heartbeat()}")
    if attempt == 1:
        heartbeat(7)
        free(f"{attempt} reported, and reads {last_heartbeat()}")
    if attempt < 3:
        raise Refused("again")
    return [attempt, last_heartbeat()]


async def refuse(kind: str) -> None:
    """Fail in the way of that name."""
    free(kind, result=str(step_attempt()))
    raise FAILURES[kind](f"refused to {step_info().workflow_id}")


FAILURES: dict[str, Callable[[str], BaseException]] = {
    "plain": Refused,
    "subclass": RefusedTwice,
    "final": lambda text: non_retryable(text, type="Final", details={"why": [1, "two"]}),
    "in a second": lambda text: Failure(text, type="Busy", details={"n": 1}, retry_after=1),
    "in a minute": lambda text: Failure(text, type="Busy", details={"n": 1}, retry_after=60),
    "benign": lambda text: Failure(text, type="Expected", details="d", benign=True),
    "not benign": lambda text: Failure(text, type="Expected", details="d"),
}


async def chained(kind: str) -> None:
    """Fail with an exception that others stand behind."""
    free(kind)
    await CHAINS[kind]()


async def _three() -> None:
    try:
        try:
            raise KeyError("lead-7")
        except KeyError as below:
            raise Failure("no such lead", type="Missing", details={"id": 7}) from below
    except Failure as below:
        raise Costly(12, currency="EUR") from below


async def _cycle() -> None:
    first, second = ValueError("first"), RuntimeError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


async def _itself() -> None:
    error = ValueError("myself")
    raise error from error


async def _context() -> None:
    try:
        raise KeyError("below")
    except KeyError:
        raise ValueError("above")  # noqa: B904 - what stands behind it is the point


async def _group() -> None:
    async def branch(error: Exception) -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        group.create_task(branch(Failure("left", type="Left", details=[1])))
        group.create_task(branch(Refused("right")))


CHAINS: dict[str, Callable[[], Awaitable[None]]] = {
    "three": _three,
    "cycle": _cycle,
    "itself": _itself,
    "context": _context,
    "group": _group,
}


async def facts() -> dict[str, Any]:
    """Return what the step is told of itself; fail once, so that the attempt counts."""
    info = step_info()
    free(str(info.attempt))
    if info.attempt == 1:
        raise Refused("once")
    assert info.deadline is not None
    return {
        "workflow_id": info.workflow_id,
        "app": info.app,
        "flow": info.flow,
        "step": info.step,
        "attempt": info.attempt,
        "pool": info.pool,
        "left": info.deadline.timestamp() - time.time(),
        "run_id": bool(info.run_id),
    }


# Cancels.


async def listens(key: str) -> str:
    """Wait for ever; when cancelled, clean up and leave as one should."""
    effect = begin(key)
    try:
        await asyncio.sleep(LONG)
    except asyncio.CancelledError:
        tell("cancel", effect, str(step_signal().reason))
        raise
    finally:
        await asyncio.sleep(0.05)
        tell("cleaned", effect)
    return end(effect, "never")


async def tidies() -> int:
    """Hang in the first attempt, and take half a second to clean up; return the second's number."""
    effect = begin(str(step_attempt()))
    try:
        await asyncio.sleep(LONG if step_attempt() == 1 else 0)
    finally:
        await asyncio.sleep(0.5)
        end(effect)
    return step_attempt()


def sync_listens(key: str) -> str:
    """Do the same in a thread."""
    effect = begin(key)
    signal = step_signal()
    while not signal.cancelled:
        time.sleep(0.02)
    tell("cancel", effect, str(signal.reason))
    try:
        signal.raise_if_cancelled()
    finally:
        tell("cleaned", effect)
    return end(effect, "never")


async def swallows(key: str) -> str:
    """Swallow the cancel of the first attempt and return all the same."""
    effect = begin(key)
    if step_attempt() > 1:
        return end(effect, "second")
    try:
        await asyncio.sleep(LONG)
    except asyncio.CancelledError:
        pass
    return end(effect, "too late")


def sync_swallows(key: str) -> str:
    """Do the same in a thread."""
    effect = begin(key)
    if step_attempt() > 1:
        return end(effect, "second")
    while not step_signal().cancelled:
        time.sleep(0.02)
    return end(effect, "too late")


# Limits.


async def busy(key: str) -> str:
    """Take a tenth of a second."""
    effect = begin(key)
    await asyncio.sleep(0.1)
    return end(effect, key)


def sync_busy(key: str) -> str:
    """Do the same in a thread."""
    effect = begin(key)
    time.sleep(0.1)
    return end(effect, key)


async def large(size: int, what: str) -> str:
    """Return, report or fail with so many characters; in the second attempt return the report."""
    free(f"{what} {step_attempt()}")
    text = "x" * size
    match what:
        case "heartbeat":
            if step_attempt() == 1:
                heartbeat(text)
                raise Refused("the next one tells")
            return str(len(last_heartbeat(str) or ""))
        case "details":
            raise non_retryable("large", type="Large", details=text)
        case _:
            return text
