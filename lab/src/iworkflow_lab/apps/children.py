"""Flows that have children, in their own app and in another one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any, cast

from iworkflow.core import AppDefinition, ChildHandle, Context, Failure, FlowError, Target
from iworkflow.core.options import ChildOptions
from iworkflow_lab.gates import free, held

Told = dict[str, Any]
"""What a parent has to tell of a child: its value, or the members of its error."""

RAISED: Target[str] = Target("nursery", "raised")
"""A flow of the other app."""


class Mood(Enum):
    """A member of a typed value."""

    GLAD = "glad"
    SAD = "sad"


@dataclass(frozen=True)
class Lead:
    """What a child is given."""

    name: str
    born: date


@dataclass(frozen=True)
class Profile:
    """What a child comes to."""

    lead: Lead
    mood: Mood
    tags: frozenset[str]
    at: datetime | None = None


async def work(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await held(key, result=key)


async def ranked(key: str) -> str:
    """Wait in a gate, in the pool that takes one step at a time."""
    return await held(key, result=key)


async def quick(key: str) -> str:
    """Return the key at once."""
    return free(key, result=key)


async def refuse(key: str) -> str:
    """Fail for good."""
    free(key)
    raise Failure(f"refused {key}", type="Refused", details={"key": key}, non_retryable=True)


async def stumble(key: str) -> str:
    """Fail with an error that a retry might mend."""
    free(key)
    raise LookupError(key)


async def told(coming: Awaitable[Any]) -> Told:
    """Tell what an awaitable comes to."""
    try:
        return {"value": await coming}
    except FlowError as error:
        return {
            "reason": str(error.reason),
            "type": error.type,
            "details": error.details,
            "exhausted": error.exhausted,
            "message": error.message,
        }


async def one(ctx: Context, key: str) -> str:
    """Run one held step."""
    return await ctx.step(work, key)


async def two(ctx: Context, key: str) -> str:
    """Run a step that is made at once and one that is held."""
    first = await ctx.step(quick, f"{key}-first")
    return f"{first} {await ctx.step(work, key)}"


async def profiled(ctx: Context, lead: Lead) -> Profile:
    """Come to a typed value."""
    tags = frozenset({await ctx.step(quick, "b"), await ctx.step(quick, "a")})
    return Profile(lead=lead, mood=Mood.GLAD, tags=tags, at=datetime(2026, 1, 2, 3, 4, 5))  # noqa: DTZ001


async def refused(ctx: Context, key: str) -> str:
    """Fail as its step fails for good."""
    return await ctx.step(refuse, key)


async def stumbled(ctx: Context, key: str) -> str:
    """Fail as its step fails, with its attempts used up."""
    return await ctx.step(stumble, key, attempts=2, retry_interval=0)


async def slow(ctx: Context, key: str) -> str:
    """Fail as its step takes longer than it may."""
    return await ctx.step(work, key, attempts=1, timeout=0.1)


async def bad(ctx: Context, key: str) -> str:
    """Fail with an exception of its own."""
    raise KeyError(key)


async def typed(ctx: Context, lead: Lead, id: str) -> tuple[Profile, Profile, Any]:
    """Read one child's value three times: as its function types it, as asked, as plain JSON."""
    target: Target[Any] = Target("children", "profiled")
    first = await ctx.child(profiled, lead, id=id)
    second = await ctx.child(target, lead, id=id, result_type=Profile)
    assert isinstance(first, Profile)
    assert isinstance(second, Profile)
    return first, second, await ctx.child(target, lead, id=id)


async def waits_for(ctx: Context, flow: str, key: str, id: str, options: dict[str, Any]) -> Told:
    """Run a child with `child` and tell what it comes to."""
    return await told(ctx.child(_target(flow), key, id=id, **_typed(options)))


async def starts(ctx: Context, flow: str, key: str, id: str, options: dict[str, Any]) -> Told:
    """Run a child with `start_child`, tell as state that it is started, and what it comes to."""
    try:
        handle = await ctx.start_child(_target(flow), key, id=id, **_typed(options))
    except FlowError as error:
        return await told(_raising(error))
    await ctx.set_state("started", {"id": handle.id, "created": handle.created})
    return await told(handle.result())


async def leaves(ctx: Context, flow: str, key: str, id: str) -> str:
    """Start a child and end without it."""
    handle: ChildHandle[str] = await ctx.start_child(_target(flow), key, id=id)
    await ctx.set_state("started", handle.id)
    return handle.id


async def aborts(ctx: Context, key: str, id: str) -> list[str]:
    """Wait for a child next to a sibling that fails."""
    trace: list[str] = []

    async def waiting() -> None:
        try:
            await ctx.child(one, key, id=id)
        except asyncio.CancelledError:
            trace.append("the wait was cancelled")
            raise

    async def failing() -> None:
        await ctx.step(work, "sibling")
        raise ValueError("the sibling failed")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(waiting())
            group.create_task(failing())
    except* ValueError as errors:
        trace.extend([str(error) for error in errors.exceptions])
    await ctx.set_state("trace", list(trace))
    trace.append(await ctx.step(work, "after"))
    return trace


async def in_pool(ctx: Context, key: str) -> int:
    """Ask for the pool that takes one step at a time, then tell by another step that it did."""
    asked = asyncio.create_task(ctx.step(ranked, key, pool="single"))
    await ctx.step(quick, "asked")
    await asked
    return ctx.priority


async def ranks(ctx: Context, ids: list[str], priorities: list[int | None]) -> list[int]:
    """Start children of these priorities by both calls in turn; gather what they come to."""
    coming: list[Awaitable[int]] = []
    for place, (id, priority) in enumerate(zip(ids, priorities, strict=True)):
        options = ChildOptions() if priority is None else ChildOptions(priority=priority)
        if place % 2:
            handle = await ctx.start_child(in_pool, id, id=id, **options)
            coming.append(handle.result())
        else:
            coming.append(asyncio.create_task(ctx.child(in_pool, id, id=id, **options)))
    return await asyncio.gather(*coming)


def _target(flow: str) -> Target[str]:
    return RAISED if flow == "raised" else Target("children", flow, str)


def _typed(options: dict[str, Any]) -> ChildOptions:
    return cast("ChildOptions", options)


async def _raising(error: FlowError) -> None:
    raise error


app = AppDefinition(
    app="children",
    flows=[
        one,
        two,
        profiled,
        refused,
        stumbled,
        slow,
        bad,
        typed,
        waits_for,
        starts,
        leaves,
        aborts,
        in_pool,
        ranks,
    ],
    activities=[work, ranked, quick, refuse, stumble],
    pools={"single": 1},
)
