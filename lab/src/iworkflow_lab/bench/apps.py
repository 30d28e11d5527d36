"""The flows of the benchmark: two apps, each in a worker process of its own."""

from __future__ import annotations

from iworkflow.core import AppDefinition, Context, Target


async def nothing(number: int) -> int:
    """Do nothing, durably."""
    return number


async def echo(ctx: Context, number: int) -> int:
    """Return the number: a child with nothing to do."""
    _ = ctx
    return number


async def children(ctx: Context, count: int) -> float:
    """Run children of another app one after the other; return seconds for each."""
    target: Target[int] = Target("bench-echo", "echo")
    begun = await ctx.now()
    for n in range(count):
        await ctx.child(target, n, id=f"{ctx.workflow_id}-{n}")
    return (await ctx.now() - begun).total_seconds() / count


async def steps(ctx: Context, count: int) -> float:
    """Run steps one after the other; return seconds for each."""
    begun = await ctx.now()
    for n in range(count):
        await ctx.step(nothing, n)
    return (await ctx.now() - begun).total_seconds() / count


caller = AppDefinition(app="bench-caller", flows=[children, steps], activities=[nothing])
callee = AppDefinition(app="bench-echo", flows=[echo])
