"""Flows that carry one value of each kind through every place where a value can stand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from iworkflow.core import (
    AppDefinition,
    Context,
    Failure,
    FlowError,
    heartbeat,
    last_heartbeat,
    non_retryable,
    step_attempt,
)
from iworkflow_lab.apps.kinds import KINDS, Everything, everything, shown
from iworkflow_lab.gates import free
from iworkflow_lab.gates import held as hold

ALONE = [
    *("point", "cat", "colour", "moment", "day", "length", "money", "raw", "id", "pair", "tags"),
    *("box", "pet", "span", "movie", "letter", "numbers", "nothing"),
]

CARRIED = {kind: KINDS[kind] for kind in ALONE} | {"everything": (Everything, everything())}
"""A hint and a value by name: one kind of each sort, and all kinds inside one another."""

KEYED = {"numbers"}
"""Kinds whose keys are no strings: they cannot stand where there is no hint to write them by."""

Flow = Callable[..., Awaitable[Any]]


async def held(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await hold(key, result=key)


async def refused(ctx: Context, value: Any) -> list[str]:
    """Return the places where the value cannot stand, for want of a hint."""
    told: list[str] = []
    for place, call in {
        "message": ctx.signal(ctx.workflow_id, "self", value),
        "state": ctx.set_state("value", value),
    }.items():
        try:
            await call
        except TypeError as error:
            told.append(f"{place}: {error}")
    return told


async def mailed(ctx: Context, hint: Any, value: Any) -> dict[str, Any]:
    """Carry the value through a client's message, a flow's message, and a state."""
    await ctx.set_state("value", value)
    await ctx.signal(ctx.workflow_id, "self", value)
    return {
        "message of a client": await ctx.recv("value", timeout=30, result_type=hint),
        "message of a flow": await ctx.recv("self", timeout=30, result_type=hint),
    }


async def failed(call: Awaitable[Any], hint: Any) -> Any:
    """Return the details of a failure."""
    try:
        await call
    except FlowError as error:
        return error.details_as(hint)
    raise AssertionError("it did not fail")


def same(back: Any, value: Any) -> bool:
    """Say whether a value came back as it was."""
    return bool(back == value) and type(back) is type(value)


def step_of(kind: str, hint: Any) -> Callable[..., Any]:
    """Build the step that reports the value, reads it in its next attempt, and fails with it."""

    async def step(value: Any) -> Any:
        free(f"{step_attempt()}", result=shown(value))
        if kind in KEYED:
            return value
        if step_attempt() == 1:
            heartbeat(value)
            raise Failure("the next one reads it")
        raise non_retryable("look", type="Typed", details=last_heartbeat(hint))

    return typed(step, f"step_{kind}", hint)


def child_of(kind: str, hint: Any) -> Flow:
    """Build the flow that returns what it is given, or fails with it."""

    async def child(ctx: Context, value: Any, fails: bool) -> Any:
        if fails:
            raise Failure("as asked", type="Typed", details=value)
        return value

    return typed(child, f"child_{kind}", hint)


def carry_of(kind: str, hint: Any) -> Flow:
    """Build the flow that carries a value everywhere, waits in its gate, and returns it."""
    step, child = f"step_{kind}", CHILDREN[kind]

    async def carry(ctx: Context, value: Any) -> Any:
        back: dict[str, Any] = {"input": value}
        name = f"{ctx.workflow_id}-child"
        back["outcome of a child"] = await ctx.child(child, value, False, id=name)
        if kind in KEYED:
            back["result"] = await ctx.step(step, value, result_type=hint)
            await ctx.set_state("refused", await refused(ctx, value))
        else:
            back |= await mailed(ctx, hint, value)
            back["failure of a step"] = await failed(
                ctx.step(step, value, result_type=Any, retry_interval=0.01), hint
            )
            fails = ctx.child(child, value, True, id=f"{name}-fails")
            back["failure of a child"] = await failed(fails, hint)
        sent = CARRIED[kind][1]
        wrong = [place for place, one in back.items() if not same(one, sent)]
        await ctx.set_state("wrong", wrong)
        await ctx.step(held, "gate")
        return back["outcome of a child"]

    return typed(carry, f"carry_{kind}", hint)


def typed(fn: Callable[..., Any], name: str, hint: Any) -> Callable[..., Any]:
    """Name a function, and annotate its value and result."""
    fn.__name__ = fn.__qualname__ = name
    fn.__annotations__ |= {} if hint is Any else {"value": hint, "return": hint}
    return fn


CHILDREN = {kind: child_of(kind, hint) for kind, (hint, _) in CARRIED.items()}
CARRIERS = [carry_of(kind, hint) for kind, (hint, _) in CARRIED.items()]

app = AppDefinition(
    app="places",
    flows=[*CHILDREN.values(), *CARRIERS],
    activities=[held, *(step_of(kind, hint) for kind, (hint, _) in CARRIED.items())],
)
