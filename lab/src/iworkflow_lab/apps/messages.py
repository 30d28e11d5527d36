"""Flows of the message and state scenarios."""

from __future__ import annotations

import asyncio

from iworkflow.core import AppDefinition, Context
from iworkflow_lab.gates import held


async def work(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await held(key, result=key)


async def recv_loses(ctx: Context) -> list[str | None]:
    """Race a `recv` against a step, lose it, and receive later."""
    step = asyncio.create_task(ctx.step(work, "race"))
    reader = asyncio.create_task(ctx.recv("mail", result_type=str))
    done, pending = await asyncio.wait({step, reader}, return_when=asyncio.FIRST_COMPLETED)
    assert done == {step}
    for loser in pending:
        loser.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    await ctx.set_state("lost", True)
    await ctx.step(work, "later")
    first = await ctx.recv("mail", timeout=20, result_type=str)
    return [first, await ctx.recv("mail", timeout=0.2, result_type=str)]


async def two_readers(ctx: Context) -> list[str | None]:
    """Wait twice on one topic at once, then look for a third message."""
    first = asyncio.create_task(ctx.recv("mail", result_type=str))
    second = asyncio.create_task(ctx.recv("mail", result_type=str))
    await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    await ctx.set_state("taken", [task.result() for task in (first, second) if task.done()])
    got = list(await asyncio.gather(first, second))
    await ctx.step(work, "after")
    return [*got, await ctx.recv("mail", timeout=0.2, result_type=str)]


async def two_sets(ctx: Context) -> str:
    """Set one key twice, and wait."""
    await ctx.set_state("value", "first")
    await ctx.set_state("value", "last")
    return await ctx.step(work, "after")


app = AppDefinition(app="messages", flows=[recv_loses, two_readers, two_sets], activities=[work])
