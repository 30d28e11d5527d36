"""Flows whose whole lives are looked at: how they start, end, and are ended."""

from __future__ import annotations

import asyncio
import time

from iworkflow.core import AppDefinition, Context, Failure, step_signal
from iworkflow_lab.gates import begin, cancelled, end, free, held, let_go


async def work(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await held(key, result=key)


async def ranked(key: str) -> str:
    """Wait in a gate, in the pool that takes one step at a time."""
    return await held(key, result=key)


async def quick(key: str) -> str:
    """Return the key at once."""
    return free(key, result=key)


async def refuse(key: str) -> str:
    """Fail for good."""
    free(key)
    raise Failure(f"refused {key}", type="Refused", details={"key": key}, non_retryable=True)


def blocking(key: str) -> str:
    """Hold a thread until this attempt is cancelled."""
    effect, signal = begin(key), step_signal()
    while not signal.cancelled:
        time.sleep(0.01)
    cancelled(effect)
    return "too late"


async def deaf(key: str) -> str:
    """Wait in the gate of `key`; when cancelled, return a result nevertheless."""
    effect = begin(key)
    try:
        await let_go(effect)
    except asyncio.CancelledError:
        cancelled(effect)
    return end(effect, "too late")


async def one(ctx: Context, key: str) -> str:
    """Run one held step."""
    return await ctx.step(work, key)


async def other(ctx: Context, key: str) -> str:
    """Run one held step, under another name."""
    return await ctx.step(work, key)


async def fails(ctx: Context, key: str) -> str:
    """Fail as its step fails."""
    return await ctx.step(refuse, key)


async def waits_in(ctx: Context, step: str) -> str:
    """Run one of the steps that end when they are cancelled, then another one."""
    await ctx.step(step, "k", result_type=str)
    return await ctx.step(quick, "after")


async def stubborn(ctx: Context, how: str) -> str:
    """Catch whatever comes, and return, fail, or go on."""
    while True:
        try:
            await ctx.step(work, "k")
            await ctx.sleep(3600)
        except BaseException:
            if how == "fails":
                raise ValueError("caught") from None
            if how == "returns":
                return await ctx.step(quick, "caught")


async def in_pool(ctx: Context, key: str) -> int:
    """Ask for the pool that takes one step at a time, then tell by another step that it did."""
    asked = asyncio.create_task(ctx.step(ranked, key, pool="single"))
    await ctx.step(quick, "asked")
    await asked
    return ctx.priority


async def echoes(ctx: Context, word: str) -> list[str]:
    """Show the word as state, wait for one more as a message, run a step with each."""
    await ctx.set_state("word", word)
    mine = await ctx.step(quick, word)
    heard = await ctx.recv("word", result_type=str)
    return [mine, await ctx.step(quick, heard or "nothing")]


app = AppDefinition(
    app="lifecycle",
    flows=[one, other, fails, waits_in, stubborn, in_pool, echoes],
    activities=[work, ranked, quick, refuse, blocking, deaf],
    pools={"single": 1},
)
