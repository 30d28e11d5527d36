"""Steps and flows that fail in unusual ways, and flows that look at what came of it."""

from __future__ import annotations

import asyncio
from typing import Any

from iworkflow.core import AppDefinition, Context, Failure, FlowError
from iworkflow_lab.gates import free
from iworkflow_lab.gates import held as hold


class Declined(Exception):
    """An exception that cannot be built from its message."""

    def __init__(self, code: int, *, owner: str) -> None:
        super().__init__(f"{owner} declined with {code}")
        self.code = code
        self.owner = owner


class Mute(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Late(Failure):
    """A failure with a constructor of its own."""

    def __init__(self, days: int) -> None:
        super().__init__(f"late by {days} days", details={"days": days}, non_retryable=True)


def chain() -> None:
    """Raise three exceptions, one caused by the next."""
    try:
        try:
            raise KeyError("the root")
        except KeyError as root:
            raise Failure("the middle", type="Middle", details={"n": [1, 2]}) from root
    except Failure as middle:
        raise ValueError("the top") from middle


def context() -> None:
    """Raise while another exception is handled, and one that hides its context."""
    try:
        try:
            raise OSError("hidden")
        except OSError:
            raise LookupError("handled") from None
    except LookupError:
        raise ValueError("the top")  # noqa: B904  # the context is the point


def cycle() -> None:
    """Raise an exception that is the cause of its cause."""
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


def itself() -> None:
    """Raise an exception from itself."""
    try:
        raise ValueError("itself")
    except ValueError as error:
        raise error from error


def deep() -> None:
    """Raise an exception at the top of a hundred causes."""
    error = ValueError("0")
    for n in range(1, 100):
        above = ValueError(str(n))
        above.__cause__ = error
        error = above
    raise error


def arguments() -> None:
    """Raise an exception whose constructor takes arguments."""
    raise Declined(7, owner="Ada")


def failure() -> None:
    """Raise a failure whose constructor takes arguments."""
    raise Late(3)


def mute() -> None:
    """Raise an exception whose text cannot be had."""
    raise Mute


def group() -> None:
    """Raise a group in a group."""
    inner = ExceptionGroup("inner", [Declined(1, owner="Bob"), KeyError("k")])
    raise ExceptionGroup("outer", [ValueError("v"), inner])


RAISERS = {
    raiser.__name__: raiser
    for raiser in (chain, context, cycle, itself, deep, arguments, failure, mute, group)
}


async def breaks(how: str) -> None:
    """Leave a line in the effect log, and fail in the way asked for."""
    free(how)
    RAISERS[how]()


async def breaks_in_tasks(how: str) -> None:
    """Fail by a task group in which three tasks fail."""
    free(how)

    async def one(name: str) -> None:
        await asyncio.sleep(0)
        raise Failure(name, type=name, non_retryable=how == "final" and name == "b")

    async with asyncio.TaskGroup() as tasks:
        for name in ("a", "b", "c"):
            tasks.create_task(one(name))


async def held(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await hold(key, result=key)


def told(error: BaseException | None) -> list[list[Any]]:
    """Tell an error of the port and its causes as data."""
    lines: list[list[Any]] = []
    while error is not None and len(lines) < 50:
        assert isinstance(error, FlowError)
        line = [str(error.reason), error.type, str(error), error.details, error.exhausted]
        lines.append(line)
        error = error.__cause__
    return lines


async def catches(ctx: Context, how: str, attempts: int = 1) -> list[list[Any]]:
    """Catch the error of a step, show it, wait in a gate, tell it."""
    lines: list[list[Any]] = []
    try:
        await ctx.step(breaks, how, attempts=attempts)
    except FlowError as error:
        lines = told(error)
    await ctx.set_state("told", lines)
    await ctx.step(held, "gate")
    return lines


async def catches_tasks(ctx: Context, how: str) -> list[list[Any]]:
    """Catch the error of a step that failed by a task group."""
    try:
        await ctx.step(breaks_in_tasks, how, attempts=2, retry_interval=0.01)
    except FlowError as error:
        return told(error)
    return []


async def fails(ctx: Context, how: str) -> None:
    """Fail in the way asked for, by the flow's own code."""
    await ctx.step(held, "gate")
    RAISERS[how]()


async def fails_by_step(ctx: Context, how: str) -> None:
    """Let the error of a step pass."""
    await ctx.step(breaks, how, attempts=1)


async def parent(ctx: Context, how: str) -> list[list[Any]]:
    """Catch the error of a child."""
    try:
        await ctx.child(fails_by_step, how, id=f"{ctx.workflow_id}-child")
    except FlowError as error:
        return told(error)
    return []


async def tasks(ctx: Context, catch: bool) -> list[Any]:
    """Run two failing steps and one that waits in a task group; catch the group, or do not."""
    caught: list[Any] = []
    cancelled: list[str] = []

    async def waits() -> None:
        try:
            await ctx.step(held, "sibling")
        except asyncio.CancelledError:
            cancelled.append("sibling")
            raise

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step(breaks, "arguments", attempts=1))
            group.create_task(waits())

    if not catch:
        await run()
    try:
        await run()
    except* FlowError as errors:
        caught += [told(error)[0][1:3] for error in errors.exceptions]
    await ctx.step(breaks_nothing, "after")
    return [caught, cancelled]


async def breaks_nothing(key: str) -> str:
    """Leave a line in the effect log."""
    return free(key, result=key)


app = AppDefinition(
    app="errors",
    flows=[catches, catches_tasks, fails, fails_by_step, parent, tasks],
    activities=[breaks, breaks_in_tasks, held, breaks_nothing],
)
