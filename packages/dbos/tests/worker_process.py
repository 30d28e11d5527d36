"""A worker in a process of its own: it prints what it does and writes down its effects."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition
from iworkflow.core.steps import heartbeat, last_heartbeat, step_attempt
from iworkflow.dbos import DbosRuntime

EFFECTS = Path(os.environ["TEST_EFFECTS"])
NAME = os.environ.get("TEST_WORKER", "w")


def say(line: str) -> None:
    print(line, flush=True)


def effect(text: str) -> None:
    with EFFECTS.open("a") as file:
        file.write(f"{text}\n")


async def note(text: str) -> str:
    effect(text)
    return text


async def slow(text: str, seconds: float) -> str:
    effect(f"begin-{text}")
    say(f"begin {text}")
    await asyncio.sleep(float(os.environ.get("TEST_SLOW", seconds)))
    effect(f"end-{text}")
    return f"{text}-by-{NAME}"


async def fails_until(attempt: int) -> int:
    say(f"attempt {step_attempt()}")
    if step_attempt() < attempt:
        raise ValueError("not yet")
    return step_attempt()


async def beats() -> int | None:
    last = last_heartbeat(result_type=int)
    if last is None:
        heartbeat(41)
        await asyncio.sleep(0.3)
        say("beaten")
        await asyncio.sleep(60)
    return last


async def one_slow(ctx: Context, seconds: float) -> str:
    await ctx.step(note, "first")
    return await ctx.step(slow, "it", seconds, timeout=120)


async def waits(ctx: Context) -> list[str | None]:
    await ctx.step(note, "waiting")
    first = await ctx.recv("topic", timeout=60, result_type=str)
    await ctx.step(note, f"got-{first}")
    second = await ctx.recv("topic", timeout=60, result_type=str)
    return [first, second]


async def sleeps(ctx: Context, seconds: float) -> float:
    begun = await ctx.now()
    await ctx.step(note, "asleep")
    await ctx.sleep(seconds)
    return (await ctx.now() - begun).total_seconds()


async def retries(ctx: Context) -> int:
    return await ctx.step(fails_until, 3, attempts=5, retry_interval=10)


async def remembers(ctx: Context) -> int | None:
    return await ctx.step(beats, timeout=120)


async def chains(ctx: Context, count: int) -> list[list[str]]:
    async def chain(name: str) -> list[str]:
        return [await ctx.step(slow, f"{name}{i}", 0.05) for i in range(count)]

    return list(await asyncio.gather(chain("a"), chain("b"), chain("c")))


async def blocks(ctx: Context) -> str:
    await ctx.step(block, 9)
    return "blocked"


async def born(ctx: Context) -> bool:
    return await ctx.patched("new")


async def block(seconds: float) -> None:
    say("blocking")
    time.sleep(seconds)  # noqa: ASYNC251 - the loop is to be held


async def main() -> None:
    app = AppDefinition(
        os.environ["TEST_APP"],
        flows=[one_slow, waits, sleeps, retries, remembers, chains, blocks, born],
        activities=[note, slow, fails_until, beats, block],
        patches=["new"],
    )
    runtime = DbosRuntime(silent_after=float(os.environ.get("TEST_SILENT_AFTER", "2")))
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    async with runtime.running(app, grace=float(os.environ.get("TEST_GRACE", "10"))):
        say("ready")
        await stopping.wait()
    say("stopped")


asyncio.run(main())
