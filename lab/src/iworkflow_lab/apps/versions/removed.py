"""The fourth version: neither call nor id are left, the new way is the only one."""

from __future__ import annotations

from iworkflow.core import AppDefinition, Context
from iworkflow_lab.apps.versions.steps import held, noted


async def changes(ctx: Context) -> list[str]:
    """Wait in a gate, for a message, go the new way, wait in a gate."""
    await ctx.set_state("born", "new")
    await ctx.step(held, "ahead")
    await ctx.recv("go")
    way = await ctx.step(noted, "new way")
    way += "/" + await ctx.step(noted, "new, too")
    return [way, await ctx.step(held, "past")]


app = AppDefinition(app="versions", flows=[changes], activities=[held, noted])
