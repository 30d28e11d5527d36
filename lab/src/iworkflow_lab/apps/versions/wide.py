"""Hints after they changed, and a flow that the other version does not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iworkflow.core import AppDefinition, Context, Failure
from iworkflow_lab.gates import free
from iworkflow_lab.gates import held as hold


@dataclass(frozen=True)
class Made:
    """What a step returns."""

    items: list[int]


async def held(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await hold(key, result=key)


async def make(key: str) -> Made:
    """Leave a line in the effect log, return numbers."""
    return Made([1, len(free(key, result="two"))])


async def reads(ctx: Context, value: str) -> list[Any]:
    """Make something whose record does not fit any more, and wait in a gate."""
    try:
        made: Any = await ctx.step(make, "made")
    except Failure as failure:
        made = [failure.type, str(failure), failure.details]
    return [made, value, await ctx.step(held, "gate")]


async def takes(ctx: Context, value: int) -> list[Any]:
    """Wait in a gate."""
    return [value, await ctx.step(held, "gate")]


async def receives(ctx: Context) -> list[Any]:
    """Wait in a gate, then take two messages, of which one may not fit."""
    await ctx.step(held, "gate")
    got: list[Any] = []
    for _ in range(2):
        try:
            got.append(await ctx.recv("mail", result_type=int))
        except Failure as failure:
            got.append([failure.type, str(failure)])
    return got


async def later(ctx: Context, value: str) -> str:
    """Run a step."""
    await ctx.step(make, value)
    return value


app = AppDefinition(app="hints", flows=[reads, takes, receives, later], activities=[held, make])
