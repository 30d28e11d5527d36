"""Flows about time, random numbers and logs."""

from __future__ import annotations

import time
from typing import Any

from iworkflow.core import AppDefinition, Context
from iworkflow_lab.gates import free
from iworkflow_lab.gates import held as hold


async def held(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await hold(key, result=key)


async def clock(key: str) -> float:
    """Leave a line in the effect log, return the wall time of the step."""
    free(key)
    return time.time()


async def sleeps(ctx: Context, seconds: float) -> list[float]:
    """Return the wall time before and after a sleep: by steps, then by the flow's clock."""
    begin = await ctx.step(clock, "before")
    first = await ctx.now()
    await ctx.sleep(seconds)
    last = await ctx.now()
    end = await ctx.step(clock, "after")
    return [begin, end, first.timestamp(), last.timestamp()]


async def no_sleep(ctx: Context) -> dict[str, Any]:
    """Sleep for no time and for less."""
    begin = await ctx.step(clock, "before")
    for _ in range(50):
        await ctx.sleep(0)
    end = await ctx.step(clock, "after")
    try:
        await ctx.sleep(-1)
        refused = "not refused"
    except ValueError as error:
        refused = str(error)
    await ctx.step(clock, "caught")
    return {"took": end - begin, "refused": refused}


async def moments(ctx: Context) -> list[list[Any]]:
    """Read the clock before and after a gate; show what was read."""
    first = [[(await ctx.now()).isoformat(), (await ctx.now()).tzname()] for _ in range(3)]
    await ctx.set_state("first", first)
    await ctx.step(held, "between")
    return [*first, [(await ctx.now()).isoformat(), ctx.started_at.isoformat()]]


async def draws(ctx: Context) -> list[Any]:
    """Draw numbers and identifiers before and after a gate; show what was drawn."""
    first = [str(ctx.uuid4()), ctx.random.random(), ctx.random.randint(0, 10**9), str(ctx.uuid4())]
    await ctx.set_state("first", first)
    await ctx.step(held, "between")
    return [*first, str(ctx.uuid4()), ctx.random.random()]


async def logs(ctx: Context) -> str:
    """Log a line before a recorded step, between steps, and after the last one."""
    ctx.log.warning("line one of %s", ctx.workflow_id)
    await ctx.step(clock, "recorded")
    ctx.log.warning("line two of %s", ctx.workflow_id)
    await ctx.set_state("place", "two")
    await ctx.step(held, "gate")
    ctx.log.warning("line three of %s", ctx.workflow_id)
    await ctx.step(held, "last")
    return "logged"


app = AppDefinition(
    app="clocks",
    flows=[sleeps, no_sleep, moments, draws, logs],
    activities=[held, clock],
)
