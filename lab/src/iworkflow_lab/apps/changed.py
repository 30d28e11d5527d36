"""The determinism app after a change that does not fit the runs of the old one."""

from __future__ import annotations

from collections.abc import AsyncIterator

from iworkflow.core import AppDefinition, Context
from iworkflow_lab.apps.determinism import bystander, quick, work


async def leftovers(ctx: Context) -> str:
    """Ask for another step than the runs of the old code have recorded first."""

    async def one() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await ctx.step(quick, "changed generator left")

    try:
        async for _ in one():
            await ctx.step(quick, "changed")
        return "changed"
    finally:
        await ctx.step(quick, "changed flow left")


app = AppDefinition(app="determinism", flows=[leftovers, bystander], activities=[work, quick])
