"""Flows that do what the port refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from iworkflow.core import (
    AppDefinition,
    Context,
    Failure,
    FlowError,
    Target,
    heartbeat,
    last_heartbeat,
    step_attempt,
)
from iworkflow_lab.gates import begin, free
from iworkflow_lab.gates import held as hold

MIB = 1024 * 1024


class Opaque:
    """What no codec carries."""


async def held(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await hold(key, result=key)


async def echo(value: Any) -> Any:
    """Leave a line in the effect log, return the value."""
    free("echo")
    return value


async def noted(key: str, count: int = 1) -> str:
    """Leave a line in the effect log, return the key so many times."""
    return free(key, result=key) * count


async def opaque() -> Any:
    """Return what no codec carries."""
    free("opaque")
    return {"items": [1, Opaque()]}


async def big(mib: float) -> str:
    """Return so many MiB."""
    free("big")
    return "x" * int(mib * MIB)


async def reports(size: int, details: int) -> int:
    """Report and fail twice, both large; then return the size of the last report."""
    begin(f"attempt {step_attempt()}")
    if step_attempt() == 3:
        return len(last_heartbeat(result_type=str) or "")
    heartbeat("x" * size)
    raise Failure("too early", type="Large", details="y" * details)


async def refuse(text: str) -> None:
    """Fail with the text in every place of the failure."""
    free("refuse")
    raise Failure(text, type=text, details={text: text}, non_retryable=True)


async def failed(call: Awaitable[Any]) -> list[Any]:
    """Return what a call failed with: class, message, and what else the port's errors say."""
    try:
        return ["no error", await call]
    except FlowError as error:
        return ["FlowError", str(error), str(error.reason), error.type, error.exhausted]
    except Failure as error:
        return ["Failure", str(error), error.type]
    except (TypeError, ValueError) as error:
        return [type(error).__name__, str(error)]


async def opaque_arguments(ctx: Context) -> list[list[Any]]:
    """Give every call of the context what cannot be encoded, then go on."""
    bad = {"items": [1, Opaque()]}
    told = [
        await failed(ctx.step(echo, bad)),
        await failed(ctx.child(Target("negative", "idle"), bad, id="n01-child")),
        await failed(ctx.start_child(Target("negative", "idle"), bad, id="n01-child")),
        await failed(ctx.set_state("state", bad)),
        await failed(ctx.signal("n01-other", "mail", bad)),
    ]
    await ctx.step(noted, "went on")
    return told


async def opaque_result(ctx: Context) -> list[Any]:
    """Run a step whose result cannot be encoded."""
    return await failed(ctx.step(opaque))


async def opaque_outcome(ctx: Context) -> Any:
    """Return what cannot be encoded."""
    await ctx.step(noted, "before")
    return {"items": [1, Opaque()]}


async def idle(ctx: Context, value: Any = None) -> Any:
    """Return the value."""
    await ctx.step(noted, "idle")
    return value


async def brims(ctx: Context, value: str) -> str:
    """Carry the value and a message everywhere, and return it."""
    told = await ctx.step(echo, value)
    message = await ctx.recv("mail", result_type=str)
    await ctx.set_state("brim", message)
    return str(await ctx.child(Target("negative", "idle"), told, id=f"{ctx.workflow_id}-child"))


async def crowds(ctx: Context, count: int, mib: float) -> list[int]:
    """Hand much over at once: to steps, to children, as messages and as the outcome."""
    some = "x" * int(mib * MIB)
    texts = [f"{number}{some}" for number in range(count)]
    for text in texts:
        await ctx.signal(ctx.workflow_id, "mail", text)
    idle: Target[str] = Target("negative", "idle")
    children = [ctx.child(idle, text, id=f"{ctx.workflow_id}-{text[0]}") for text in texts]
    letters = [await ctx.recv("mail", result_type=str) for _ in texts]
    told = [*letters, *await asyncio.gather(*(ctx.step(echo, text) for text in texts), *children)]
    return [int(str(one)[0]) if str(one).endswith(some) else -1 for one in told]


async def breaks(ctx: Context, size: int) -> None:
    """Fail with details of a size."""
    raise Failure("too much", type="Brim", details="x" * size)


async def beats(ctx: Context, size: int, details: int) -> int:
    """Run a step whose reports and errors are so large."""
    return await ctx.step(reports, size, details, attempts=3, retry_interval=0.1)


async def sizes(ctx: Context) -> dict[str, Any]:
    """Give every call of the context more than it carries, and nearly as much."""
    much, much_less = "x" * 3 * MIB, "x" * (2 * MIB - 4096)
    told = {
        "step": await failed(ctx.step(echo, much)),
        "result": await failed(ctx.step(big, 3)),
        "child": await failed(ctx.child(Target("negative", "idle"), much, id="n03-child")),
        "state": await failed(ctx.set_state("state", much)),
        "signal": await failed(ctx.signal(ctx.workflow_id, "mail", much)),
    }
    fits = await ctx.step(echo, much_less)
    await ctx.set_state("fits", much_less)
    told["fits"] = fits == much_less
    return told


async def big_outcome(ctx: Context) -> str:
    """Return more than fits."""
    return "x" * 3 * MIB + await ctx.step(noted, "before")


async def nuls(ctx: Context, text: str) -> dict[str, Any]:
    """Carry a text through every position."""
    await ctx.set_state("state", {text: [text]})
    echoed = await ctx.step(echo, {text: [text]})
    told = await failed(ctx.step(refuse, text))
    message = await ctx.recv("mail")
    child = await ctx.child(idle, [text], id=f"{ctx.workflow_id}-child")
    return {"arg": text, "step": echoed, "failed": told, "message": message, "child": child}


async def nul_failure(ctx: Context, text: str) -> None:
    """Fail with the text in every place of the failure."""
    await ctx.step(noted, "before")
    raise Failure(text, type=text, details={text: text})


async def unknown_names(ctx: Context) -> list[list[Any]]:
    """Ask for a step and a pool that are not there, then go on."""
    told = [
        await failed(ctx.step("ecko", 1)),
        await failed(ctx.step(noted, "pool", pool="pacd")),
        await failed(ctx.step(stranger)),
    ]
    await ctx.step(noted, "went on")
    return told


async def stranger() -> None:
    """Stand in no app."""


async def unknown_uncaught(ctx: Context) -> None:
    """Ask for a step that is not there, and catch nothing."""
    await ctx.step(noted, "before")
    await ctx.step("ecko", 1)


async def wrong_arguments(ctx: Context) -> list[list[Any]]:
    """Call steps and a child with arguments that do not fit, then go on."""
    wrong: Any = noted
    told = [
        await failed(ctx.step(wrong)),
        await failed(ctx.step(wrong, "wrong", 2, 3)),
        await failed(ctx.step("noted", 7)),
        await failed(ctx.child(typed, id="n07-child")),
        await failed(ctx.child(typed, "one", 2, 3, id="n07-child")),
    ]
    await ctx.step(noted, "went on")
    return told


async def typed(ctx: Context, text: str, number: int = 0) -> str:
    """Take a text and perhaps a number."""
    return await ctx.step(noted, text, number)


app = AppDefinition(
    app="negative",
    flows=[
        opaque_arguments,
        opaque_result,
        opaque_outcome,
        idle,
        sizes,
        brims,
        crowds,
        breaks,
        beats,
        big_outcome,
        nuls,
        nul_failure,
        unknown_names,
        unknown_uncaught,
        wrong_arguments,
        typed,
    ],
    activities=[held, echo, noted, opaque, big, reports, refuse],
    pools={"paced": 1},
)
