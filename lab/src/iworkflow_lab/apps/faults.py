"""Flows whose workers are killed, frozen, stopped and cut off from their server."""

from __future__ import annotations

import asyncio

from iworkflow.core import (
    AppDefinition,
    Context,
    Failure,
    FlowError,
    Target,
    heartbeat,
    last_heartbeat,
    non_retryable,
    step_attempt,
)
from iworkflow_lab.gates import begin, end, free, held, let_go

STOP = "stop"
"""The message that ends a flow which collects messages."""
WAIT = 6.0
"""Seconds between the second and the third attempt of `fails`."""


async def token(key: str) -> str:
    """Wait in the gate of `key`, return what no other execution returns."""
    return await held(key)


async def tells(key: str) -> str:
    """Have the effect at once, and only then wait in the gate, with the result in hand."""
    effect = begin(key)
    end(effect, effect.call)
    await let_go(effect)
    return effect.call


async def quick(key: str) -> str:
    """Return what no other execution returns, at once."""
    return free(key)


async def refuses(key: str) -> str:
    """Wait in the gate, fail for good."""
    call = await held(key)
    raise non_retryable("refused", type="Refused", details=call)


async def fails(key: str) -> str:
    """Fail in each attempt; the second one asks for a long wait."""
    attempt = step_attempt()
    free(f"{key} {attempt}")
    raise Failure(f"attempt {attempt}", retry_after=WAIT if attempt == 2 else 0.05)


async def struggles(key: str) -> str:
    """Fail in each attempt, in all but the first only when let go."""
    attempt = step_attempt()
    if attempt == 1:
        free(f"{key} {attempt}")
    else:
        await held(f"{key} {attempt}")
    raise Failure(f"attempt {attempt}")


async def beats(key: str, fresh: bool) -> str:
    """Tell what the attempt before has reported; report 7 unless there is something; wait."""
    known = last_heartbeat(int)
    effect = begin(f"{key} read {known}")
    if known is None or fresh:
        heartbeat(7 if known is None else known + 1)
    await let_go(effect)
    return end(effect, str(known))


async def pair(ctx: Context, step: str = "token") -> list[str]:
    """Run two steps, one after the other."""
    first = await ctx.step(step, "first", result_type=str)
    return [first, await ctx.step(step, "second", result_type=str)]


async def pooled(ctx: Context) -> list[str]:
    """Do the same in the pool that takes one step at a time."""
    first = await ctx.step(token, "first", pool="single")
    return [first, await ctx.step(token, "second", pool="single")]


async def gives_up(ctx: Context, step: str, attempts: int) -> dict[str, object]:
    """Run a step that fails until its attempts run out; tell its error."""
    try:
        await ctx.step(step, "try", attempts=attempts, retry_interval=0.05, result_type=str)
    except FlowError as error:
        return {"message": error.message, "exhausted": error.exhausted}
    return {}


async def beating(ctx: Context, fresh: bool) -> str:
    """Run the step that reports."""
    return await ctx.step(beats, "beat", fresh)


async def collects(ctx: Context, beside: bool) -> list[str]:
    """Run a step with each message until the last; beside another step, if so told."""
    other = asyncio.create_task(ctx.step(token, "beside")) if beside else None
    messages: list[str] = []
    while (message := await ctx.recv("mail", result_type=str)) != STOP:
        assert message is not None
        messages.append(message)
        await ctx.step(quick, f"got {message}")
    if other is not None:
        await other
    return messages


async def expects(ctx: Context, seconds: float) -> str | None:
    """Wait for a message for so long, tell by a step that the wait is over."""
    message = await ctx.recv("mail", timeout=seconds, result_type=str)
    await ctx.step(quick, "expected")
    return message


async def sleeps(ctx: Context, seconds: float) -> str:
    """Run a step, sleep, run another."""
    await ctx.step(quick, "asleep")
    await ctx.sleep(seconds)
    return await ctx.step(quick, "awake")


async def parent(ctx: Context, app: str) -> list[str]:
    """Run a step, then a child of an app; its outcome, a failure or not, is one's own."""
    mine = await ctx.step(quick, "before")
    target: Target[list[str]] = Target(app, "pair")
    theirs = await ctx.child(target, id=f"{ctx.workflow_id}-child", result_type=list[str])
    return [mine, *theirs]


async def branches(ctx: Context) -> list[list[str]]:
    """Gather two chains of steps and one that fails in its first."""

    async def chain(name: str) -> list[str]:
        return [await ctx.step(token, key) for key in (f"{name}0", f"{name}1", f"{name}2")]

    async def failing() -> list[str]:
        try:
            await ctx.step(refuses, "c0")
        except FlowError as error:
            return [error.details_as(str), await ctx.step(token, "c1")]
        return []

    return list(await asyncio.gather(chain("a"), chain("b"), failing()))


app = AppDefinition(
    app="faults",
    flows=[
        pair,
        pooled,
        gives_up,
        beating,
        collects,
        expects,
        sleeps,
        parent,
        branches,
    ],
    activities=[token, tells, quick, refuses, fails, struggles, beats],
    pools={"single": 1},
)
child = AppDefinition(app="faults-child", flows=[pair], activities=[token, tells])
