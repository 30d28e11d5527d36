"""The first version: it knows no patch."""

from __future__ import annotations

import asyncio

from iworkflow.core import AppDefinition, Context
from iworkflow_lab.apps.versions.steps import held, noted


async def changes(ctx: Context) -> list[str]:
    """Wait in a gate, for a message, go the old way, wait in a gate."""
    await ctx.set_state("born", "old")
    await ctx.step(held, "ahead")
    await ctx.recv("go")
    way = await ctx.step(noted, "old way")
    return [way, await ctx.step(held, "past")]


async def asks(ctx: Context) -> list[bool]:
    """Run two branches and a step after them."""

    async def branch(name: str) -> list[bool]:
        await ctx.step(held, name)
        return []

    await asyncio.gather(branch("one"), branch("two"))
    await ctx.step(held, "last")
    return []


app = AppDefinition(app="versions", flows=[changes, asks], activities=[held, noted])
