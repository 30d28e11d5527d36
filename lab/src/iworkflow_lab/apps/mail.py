"""Flows that read, send and wait for messages."""

from __future__ import annotations

import asyncio
from typing import Any

from iworkflow.core import AppDefinition, Context, FlowError
from iworkflow_lab.gates import free
from iworkflow_lab.gates import held as hold


async def held(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await hold(key, result=key)


async def noted(key: str) -> str:
    """Leave a line in the effect log, return the key."""
    return free(key, result=key)


async def collect(ctx: Context, topic: str, count: int) -> list[Any]:
    """Take so many messages of a topic, then look for one more; note each."""
    got = [await ctx.recv(topic) for _ in range(count)]
    for message in got:
        await ctx.step(noted, str(message))
    return [*got, await ctx.recv(topic, timeout=0)]


async def gated(ctx: Context, topic: str, count: int) -> list[Any]:
    """Wait in a gate first, then collect."""
    await ctx.step(held, "before")
    return await collect(ctx, topic, count)


async def nothing(ctx: Context) -> dict[str, Any]:
    """Wait for messages that never come."""
    begin = await ctx.now()
    plain = await ctx.recv("mail", timeout=0.3)
    end = await ctx.now()
    return {
        "plain": plain,
        "waited": (end - begin).total_seconds(),
        "default": await ctx.recv("mail", 0.05, "the default"),
        "zero": await ctx.recv("mail", timeout=0),
        "beside": list(await asyncio.gather(*(ctx.recv("mail", timeout=0.05) for _ in range(3)))),
    }


async def late(ctx: Context, limit: float) -> list[Any]:
    """Let a `recv` time out, wait in a gate, then look again."""
    await ctx.step(noted, "begun")
    first = await ctx.recv("mail", timeout=limit)
    await ctx.step(held, "after")
    return [first, await ctx.recv("mail", timeout=10), await ctx.recv("mail", timeout=0)]


async def late_beside(ctx: Context, limit: float) -> list[Any]:
    """Let a `recv` time out while a step goes on beside it, then look again."""
    await ctx.step(noted, "begun")
    beside = asyncio.create_task(ctx.step(held, "beside"))
    first = await ctx.recv("mail", timeout=limit)
    await beside
    await ctx.step(held, "after")
    return [first, await ctx.recv("mail", timeout=10), await ctx.recv("mail", timeout=0)]


async def apart(ctx: Context) -> list[Any]:
    """Look into one topic while another has mail."""
    empty = await ctx.recv("empty", timeout=0.2)
    beside = await asyncio.gather(ctx.recv("empty", timeout=0.1), ctx.recv("void", timeout=0.1))
    await ctx.step(noted, "looked")
    return [empty, *beside, await ctx.recv("full"), await ctx.recv("full", timeout=0)]


async def topics(ctx: Context, names: list[str], count: int) -> dict[str, list[Any]]:
    """Read half of the topics side by side, and the others one after another."""

    async def read(name: str) -> list[Any]:
        return [await ctx.recv(name) for _ in range(count)]

    half = len(names) // 2
    got = await asyncio.gather(*(read(name) for name in names[:half]))
    got += [await read(name) for name in names[half:]]
    await ctx.step(noted, "read")
    return dict(zip(names, got, strict=True))


async def looks_beside(ctx: Context, names: list[str], limit: float) -> list[Any]:
    """Look into many topics at once, with little time, while a step goes on beside them."""
    await ctx.step(held, "before")
    beside = asyncio.create_task(ctx.step(held, "beside"))
    looks = [ctx.recv(name, timeout=limit) for name in names]
    got = list(await asyncio.gather(*looks))
    await ctx.set_state("got", got)
    await beside
    return got


async def one_then_next(ctx: Context) -> list[Any]:
    """Take a message, run a step on it, take the next one."""
    first = await ctx.recv("mail", result_type=str)
    assert first is not None
    await ctx.step(noted, first)
    await ctx.step(held, "between")
    second = await ctx.recv("mail", result_type=str)
    return [first, second, await ctx.recv("mail", timeout=0)]


async def sends(ctx: Context, to: str, value: str, message_id: str | None = None) -> str:
    """Send a message after one gate and before another; tell what came of it."""
    await ctx.step(held, "before")
    try:
        await ctx.signal(to, "mail", value, message_id)
        told = "sent"
    except FlowError as error:
        told = str(error.reason)
    await ctx.step(noted, told)
    return told


async def until_stopped(ctx: Context) -> list[Any]:
    """Take messages until one says stop."""
    got: list[Any] = []
    while True:
        message = await ctx.recv("mail")
        if message == "stop":
            return got
        got.append(message)
        await ctx.set_state("got", got)


async def ends(ctx: Context, how: str) -> str:
    """End at once, in the way asked for."""
    await ctx.step(noted, how)
    if how == "failed":
        raise ValueError("as asked")
    if how in ("terminated", "timed-out"):
        await ctx.sleep(60)
    return how


async def leaves(ctx: Context) -> Any:
    """Return at the first message."""
    first = await ctx.recv("mail")
    await ctx.step(noted, "left")
    return first


app = AppDefinition(
    app="mail",
    flows=[
        collect,
        gated,
        nothing,
        late,
        late_beside,
        apart,
        topics,
        looks_beside,
        one_then_next,
        sends,
        until_stopped,
        ends,
        leaves,
    ],
    activities=[held, noted],
)
