"""Flows that look at the clock, or hold up the loop."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable

from iworkflow.core import AppDefinition, Context
from iworkflow_lab.apps.pause import pause
from iworkflow_lab.gates import free, held

EARLY = 4.0
"""For how many seconds `branches` takes the first of its branches."""
HOLD = 1.6
"""For how many seconds `holds` holds up the loop."""


async def token(key: str) -> str:
    """Return what no other execution returns."""
    return free(key)


async def work(key: str) -> str:
    """Wait in the gate of `key`."""
    return await held(key)


def _by_time() -> float:
    return time.time()


def _by_datetime() -> float:
    return datetime.datetime.now(datetime.UTC).timestamp()


def _by_localtime() -> float:
    return time.mktime(time.localtime())


_CLOCKS: dict[str, Callable[[], float]] = {
    "time.time": _by_time,
    "datetime.datetime.now": _by_datetime,
    "time.localtime": _by_localtime,
}


async def branches(ctx: Context, clock: str) -> list[str]:
    """Take a branch by a clock of the machine, after a step and before another."""
    now = await ctx.now()
    before = await ctx.step(token, "before")
    name = "early" if _CLOCKS[clock]() < now.timestamp() + EARLY else "late"
    branch = await ctx.step(name, "branch", result_type=str)
    return [before, branch, await ctx.step(work, "after")]


async def holds(ctx: Context) -> list[str]:
    """Hold up the loop between two steps."""
    first = await ctx.step(token, "first")
    pause(HOLD)  # this line is named
    return [first, await ctx.step(token, "second")]


async def brief(ctx: Context) -> list[str]:
    """Hold up the loop for a moment that nobody minds."""
    first = await ctx.step(token, "first")
    pause(0.1)
    return [first, await ctx.step(token, "second")]


app = AppDefinition(
    app="clocked",
    flows=[branches, holds, brief],
    activities={"token": token, "work": work, "early": token, "late": token},
)
