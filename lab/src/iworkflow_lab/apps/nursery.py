"""The other app, whose flow is a child of flows of `children`."""

from __future__ import annotations

from iworkflow.core import AppDefinition, Context
from iworkflow_lab.gates import held


async def work(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await held(key, result=key)


async def raised(ctx: Context, key: str) -> str:
    """Run one held step; tell who the parent is."""
    return f"{await ctx.step(work, key)} of {ctx.parent_id}"


app = AppDefinition(app="nursery", flows=[raised], activities=[work])
