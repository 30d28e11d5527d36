"""One app before and after changes of its code that do not fit its runs.

Every flow exists before and after; what has changed stands next to it. All flows of the old code
wait in the step `third`.
"""

from __future__ import annotations

import asyncio

from iworkflow.core import AppDefinition, Context
from iworkflow_lab.gates import free, held


async def token(key: str) -> str:
    """Return what no other execution returns."""
    return free(key)


async def work(key: str) -> str:
    """Wait in the gate of `key`, return what no other execution returns."""
    return await held(key)


async def line(ctx: Context) -> list[str]:
    """Run three steps, one after another: the old code of most flows."""
    first = await ctx.step("first", "k", result_type=str)
    second = await ctx.step("second", "k", result_type=str)
    return [first, second, await ctx.step("third", "k", result_type=str)]


async def fork(ctx: Context) -> list[str]:
    """Run two steps side by side, then the third: the old code of the others."""
    both = await asyncio.gather(
        ctx.step("first", "k", result_type=str), ctx.step("second", "k", result_type=str)
    )
    return [*both, await ctx.step("third", "k", result_type=str)]


async def renamed(ctx: Context) -> list[str]:
    """The second step has another name."""
    first = await ctx.step("first", "k", result_type=str)
    second = await ctx.step("second_v2", "k", result_type=str)
    return [first, second, await ctx.step("third", "k", result_type=str)]


async def renamed_branch(ctx: Context) -> list[str]:
    """A step of the fork has another name."""
    both = await asyncio.gather(
        ctx.step("first", "k", result_type=str), ctx.step("second_v2", "k", result_type=str)
    )
    return [*both, await ctx.step("third", "k", result_type=str)]


async def other_arguments(ctx: Context) -> list[str]:
    """The second step is given something else."""
    first = await ctx.step("first", "k", result_type=str)
    second = await ctx.step("second", "l", result_type=str)
    return [first, second, await ctx.step("third", "k", result_type=str)]


async def inserted(ctx: Context) -> list[str]:
    """There is one more step between the first and the second."""
    first = await ctx.step("first", "k", result_type=str)
    await ctx.step("extra", "k", result_type=str)
    second = await ctx.step("second", "k", result_type=str)
    return [first, second, await ctx.step("third", "k", result_type=str)]


async def inserted_first(ctx: Context) -> list[str]:
    """There is one more step in front."""
    await ctx.step("extra", "k", result_type=str)
    return await line(ctx)


async def inserted_sleep(ctx: Context) -> list[str]:
    """There is a sleep between the first and the second."""
    first = await ctx.step("first", "k", result_type=str)
    await ctx.sleep(0.1)
    second = await ctx.step("second", "k", result_type=str)
    return [first, second, await ctx.step("third", "k", result_type=str)]


async def inserted_branch(ctx: Context) -> list[str]:
    """The fork has one more branch, ahead of the others."""
    _, *both = await asyncio.gather(
        ctx.step("extra", "k", result_type=str),
        ctx.step("first", "k", result_type=str),
        ctx.step("second", "k", result_type=str),
    )
    return [*both, await ctx.step("third", "k", result_type=str)]


async def removed(ctx: Context) -> list[str]:
    """There is no second step."""
    first = await ctx.step("first", "k", result_type=str)
    return [first, await ctx.step("third", "k", result_type=str)]


async def removed_first(ctx: Context) -> list[str]:
    """There is no first step."""
    second = await ctx.step("second", "k", result_type=str)
    return [second, await ctx.step("third", "k", result_type=str)]


async def removed_rest(ctx: Context) -> list[str]:
    """There is nothing after the first step."""
    return [await ctx.step("first", "k", result_type=str)]


async def removed_branch(ctx: Context) -> list[str]:
    """The fork has one branch only."""
    first = await ctx.step("first", "k", result_type=str)
    return [first, await ctx.step("third", "k", result_type=str)]


async def logs(ctx: Context) -> list[str]:
    """Log a line before, between and after the steps: the old code of one flow."""
    ctx.log.warning("line one of %s", ctx.workflow_id)
    first = await ctx.step("first", "k", result_type=str)
    ctx.log.warning("line two of %s", ctx.workflow_id)
    second = await ctx.step("second", "k", result_type=str)
    third = await ctx.step("third", "k", result_type=str)
    ctx.log.warning("line three of %s", ctx.workflow_id)
    return [first, second, third]


async def logged(ctx: Context) -> list[str]:
    """The second step of these has another name, and there is one more line ahead of it."""
    ctx.log.warning("line one of %s", ctx.workflow_id)
    first = await ctx.step("first", "k", result_type=str)
    ctx.log.warning("line two of %s", ctx.workflow_id)
    ctx.log.warning("line new of %s", ctx.workflow_id)
    second = await ctx.step("second_v2", "k", result_type=str)
    third = await ctx.step("third", "k", result_type=str)
    ctx.log.warning("line three of %s", ctx.workflow_id)
    return [first, second, third]


async def fits(ctx: Context) -> list[str]:
    """Run steps that no change has touched."""
    return await line(ctx)


_STEPS = {
    "first": token,
    "second": token,
    "third": work,
    "second_v2": token,
    "extra": token,
}
_CHANGED = [
    renamed,
    renamed_branch,
    other_arguments,
    inserted,
    inserted_first,
    inserted_sleep,
    inserted_branch,
    removed,
    removed_first,
    removed_rest,
    removed_branch,
]
_FORKS = (renamed_branch, inserted_branch, removed_branch)

before = AppDefinition(
    app="parked",
    flows={
        "fits": fits,
        "logged": logs,
        **{flow.__name__: fork if flow in _FORKS else line for flow in _CHANGED},
    },
    activities=_STEPS,
)
after = AppDefinition(
    app="parked",
    flows={"fits": fits, "logged": logged, **{flow.__name__: flow for flow in _CHANGED}},
    activities=_STEPS,
)
