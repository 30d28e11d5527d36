"""Flows that set states and end in every way."""

from __future__ import annotations

from typing import Any

from iworkflow.core import AppDefinition, Context, non_retryable
from iworkflow_lab.gates import held as hold


async def held(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await hold(key, result=key)


async def tells(ctx: Context, value: Any, how: str) -> str:
    """Set states, wait in a gate, set one again, and end in the way asked for."""
    await ctx.set_state("value", value)
    await ctx.set_state("falsy", 0)
    await ctx.set_state("place", "before")
    await ctx.step(held, "gate")
    await ctx.set_state("place", "after")
    await ctx.step(held, "end")
    if how == "failed":
        raise non_retryable("as asked", type="Asked")
    return how


app = AppDefinition(app="states", flows=[tells], activities=[held])
