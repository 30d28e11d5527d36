"""Flows of the step scenarios: most run one step, and tell what came of it as data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from iworkflow.core import AppDefinition, Context, Failure, FlowError, Target
from iworkflow_lab.apps import step_sorts as sorts
from iworkflow_lab.apps import step_work as steps
from iworkflow_lab.apps import step_worst as worst
from iworkflow_lab.apps.kinds import KINDS, Everything

Told = dict[str, Any]


def told(error: BaseException) -> Told:
    """Return what can be seen of an error, its causes included."""
    data: Told = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, FlowError):
        data |= {
            "type": error.type,
            "reason": str(error.reason),
            "exhausted": error.exhausted,
            "details": error.details,
        }
    if error.__cause__ is not None:
        data["cause"] = told(error.__cause__)
    return data


async def run(ctx: Context, step: str, args: list[Any], options: dict[str, Any]) -> Any:
    """Run one step."""
    return await ctx.step(step, *args, result_type=Any, **options)


async def tell(ctx: Context, step: str, args: list[Any], options: dict[str, Any]) -> Any:
    """Run one step; return its result, or its error as data."""
    try:
        return await run(ctx, step, args, options)
    except FlowError as error:
        return told(error)


async def tell_class(ctx: Context, kind: str) -> Told | None:
    """Run a step that fails, with an exception class among the types that are final."""
    try:
        await ctx.step(steps.refuse, kind, non_retryable_types=[steps.Refused])
    except FlowError as error:
        return told(error)
    return None


async def typed(ctx: Context, kind: str) -> bool:
    """Send a value of a kind through its step; say whether it came back as it was."""
    sent = KINDS[kind][1]
    back = await ctx.step(f"echo_{kind}", sent)
    return bool(back == sent) and type(back) is type(sent)


async def everywhere(ctx: Context, value: Everything) -> Everything:
    """Carry a value through a message, a state, a step, its heartbeat and its failure."""
    message = await ctx.recv("value", timeout=20, result_type=Everything)
    assert message is not None
    assert message == value, message
    await ctx.set_state("value", message)
    back = await ctx.step(steps.everything, message)
    assert back == value, back
    try:
        await ctx.step("detailed", back, result_type=Any)
    except FlowError as error:
        back = error.details_as(Everything)
    raise_with = await ctx.recv("fail", timeout=20, result_type=bool)
    if raise_with:
        raise Failure("with details", type="Typed", details=back)
    return back


async def returns_none(ctx: Context) -> list[Any]:
    """Run what comes to nothing: steps and a child; then wait in another step."""
    child: Target[Any] = Target("steps", "comes_to_nothing")
    nothing = [
        await ctx.step("nothing", result_type=Any),
        await ctx.step("echo_absent", None),
        await ctx.step("sync_nothing", result_type=Any),
        await ctx.child(child, id=f"{ctx.workflow_id}-child"),
    ]
    await ctx.set_state("nothing", nothing)
    return [*nothing, await ctx.step(steps.work, "after")]


async def comes_to_nothing(ctx: Context) -> None:
    """Run a step that returns nothing, and return nothing."""
    await ctx.step("nothing", result_type=Any)


async def asks_as_a_step(ctx: Context) -> list[Any]:
    """Ask what a step alone may ask, and go on."""
    return [worst.outside(), await ctx.step(sorts.tenfold, 1)]


async def catches(ctx: Context, kind: str) -> Any:
    """Catch a step's failure, show it, wait, and return it as it is seen then."""
    caught = await tell(ctx, "refuse", [kind], {"attempts": 2, "retry_interval": 0.05})
    await ctx.set_state("caught", caught)
    await ctx.step(steps.work, "after")
    return caught


async def refuses(ctx: Context, benign: bool) -> None:
    """Fail by itself."""
    raise Failure(f"the flow refused {ctx.workflow_id}", type="Expected", benign=benign)


async def gives_up(ctx: Context, step: str, seconds: float) -> list[Any]:
    """Give up on a step after a while, and go on."""
    try:
        async with asyncio.timeout(seconds):
            return [await ctx.step(step, "key", result_type=Any)]
    except TimeoutError:
        at = await ctx.now()
    return ["gave up", at.timestamp(), await ctx.step(sorts.tenfold, 1)]


async def crowd(ctx: Context, calls: list[tuple[str, str, dict[str, Any]]]) -> list[Any]:
    """Run all these steps at once: name, key, options."""
    return await asyncio.gather(
        *(ctx.step(step, key, result_type=Any, **options) for step, key, options in calls)
    )


async def queues_up(ctx: Context, calls: list[tuple[str, str, dict[str, Any]]]) -> list[Any]:
    """Run all these steps at once; say as state when they have had time to queue up."""
    asked = asyncio.gather(
        *(ctx.step(step, key, result_type=Any, **options) for step, key, options in calls)
    )
    for n in range(3):
        await ctx.step(sorts.tenfold, n)
    await ctx.set_state("queued", True)
    return await asked


async def ticks(ctx: Context, times: int) -> int:
    """Sleep now and then, and run a step that waits for nothing."""
    for _ in range(times):
        await ctx.sleep(0.05)
        await ctx.step(sorts.tenfold, 1)
    return times


async def carries(ctx: Context, size: int, how: str) -> Any:
    """Carry so many characters: as an argument, a state, a message, a child's argument..."""
    text = "x" * size
    try:
        match how:
            case "argument":
                await ctx.step("echo_text", text, result_type=str)
            case "signal":
                await ctx.signal(ctx.workflow_id, "text", text)
            case "state":
                await ctx.set_state("text", text)
            case "outcome":
                return text
            case "child":
                return await ctx.child(carries, 1, text, id=f"{ctx.workflow_id}-child")
            case _:
                return await ctx.step(steps.large, size, how, attempts=2, retry_interval=0.05)
    except (FlowError, Failure) as error:
        return told(error) | {"type": error.type}
    return "carried"


FLOWS: list[Callable[..., Awaitable[Any]]] = [
    run,
    tell,
    tell_class,
    typed,
    everywhere,
    returns_none,
    comes_to_nothing,
    asks_as_a_step,
    catches,
    refuses,
    gives_up,
    crowd,
    queues_up,
    ticks,
    carries,
]
STEPS: list[Callable[..., Any]] = [
    steps.everything,
    steps.detailed,
    steps.nothing,
    steps.sync_nothing,
    steps.work,
    steps.sync_work,
    steps.flaky,
    steps.hangs,
    steps.silent,
    steps.reports,
    steps.refuse,
    steps.chained,
    steps.facts,
    steps.listens,
    steps.tidies,
    steps.sync_listens,
    steps.swallows,
    steps.sync_swallows,
    steps.busy,
    steps.sync_busy,
    steps.large,
    worst.blocks,
    worst.deaf,
    worst.leaks,
    worst.itself,
    worst.sync_itself,
    worst.ends_all,
    worst.sync_ends_all,
    worst.cancels_itself,
    sorts.forgets_await,
    sorts.tenfold,
]
NAMED = {step.__name__: step for step in STEPS} | steps.ECHOES | sorts.SORTS

app = AppDefinition(
    app="steps", flows=FLOWS, activities=NAMED, pools={"one": 1, "two": 2, "deaf": 1}
)
narrow = AppDefinition(
    app="narrow", flows=FLOWS, activities=NAMED, pools={"wide": 10}, max_concurrent_steps=3
)
"""The same with room for three steps at once."""
