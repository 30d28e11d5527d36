"""The second version: it goes a new way, guarded by a patch."""

from __future__ import annotations

import asyncio

from iworkflow.core import AppDefinition, Context
from iworkflow_lab.apps.versions.steps import NEW_WAY, held, noted


async def changes(ctx: Context) -> list[str]:
    """Wait in a gate, for a message, go the way of the run's birth, wait in a gate."""
    await ctx.set_state("born", "new" if await ctx.patched(NEW_WAY) else "old")
    await ctx.step(held, "ahead")
    await ctx.recv("go")
    if await ctx.patched(NEW_WAY):
        way = await ctx.step(noted, "new way")
        way += "/" + await ctx.step(noted, "new, too")
    else:
        way = await ctx.step(noted, "old way")
    return [way, await ctx.step(held, "past")]


async def asks(ctx: Context) -> list[bool]:
    """Ask in two branches, before and after their steps, and after both, twice."""

    async def branch(name: str) -> list[bool]:
        first = await ctx.patched(NEW_WAY)
        await ctx.step(held, name)
        return [first, *await asyncio.gather(ctx.patched(NEW_WAY), ctx.patched(NEW_WAY))]

    one, two = await asyncio.gather(branch("one"), branch("two"))
    asked = [*one, *two, await ctx.patched(NEW_WAY)]
    await ctx.step(held, "last")
    return [*asked, await ctx.patched(NEW_WAY)]


async def strays(ctx: Context) -> list[str]:
    """Ask for an id that the app does not declare, in both ways."""
    said: list[str] = []
    for ask in (ctx.patched, ctx.deprecate_patch):
        try:
            await ask("new-wya")
        except ValueError as error:
            said.append(str(error))
        await ctx.step(noted, ask.__name__)
    return said


async def strays_uncaught(ctx: Context) -> None:
    """Ask for an id that the app does not declare, and catch nothing."""
    await ctx.step(noted, "before")
    await ctx.patched("undeclared")
    await ctx.step(noted, "after")


app = AppDefinition(
    app="versions",
    flows=[changes, asks, strays, strays_uncaught],
    activities=[held, noted],
    patches=[NEW_WAY],
)
