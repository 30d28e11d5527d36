"""The third version: the old way is gone, the call that says so stands."""

from __future__ import annotations

from iworkflow.core import AppDefinition, Context
from iworkflow_lab.apps.versions.steps import NEW_WAY, held, noted


async def changes(ctx: Context) -> list[str]:
    """Wait in a gate, for a message, go the new way, wait in a gate."""
    await ctx.deprecate_patch(NEW_WAY)
    await ctx.set_state("born", "new")
    await ctx.step(held, "ahead")
    await ctx.recv("go")
    way = await ctx.step(noted, "new way")
    way += "/" + await ctx.step(noted, "new, too")
    return [way, await ctx.step(held, "past")]


app = AppDefinition(app="versions", flows=[changes], activities=[held, noted], patches=[NEW_WAY])
