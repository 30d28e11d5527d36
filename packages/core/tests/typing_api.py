"""What the public names promise to a type checker. Checked, never run.

Each `assert_type` holds, and each line with an ignore is refused: an ignore that nothing needs
is an error of both checkers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, assert_type
from uuid import UUID

from iworkflow.core import (
    AppDefinition,
    ChildHandle,
    Client,
    Context,
    FlowDescription,
    FlowError,
    Handle,
    Reason,
    Runtime,
    StepInfo,
    Target,
    as_completed,
    engine,
    last_heartbeat,
    step_attempt,
    step_info,
    wait,
)


@dataclass
class Lead:
    name: str


@dataclass
class Outcome:
    reply: str | None


async def compose(lead: Lead) -> str:
    return lead.name


def remind(lead: Lead, times: int) -> int:
    return times


async def enrich(ctx: Context, lead: Lead) -> Outcome:
    return Outcome(lead.name)


async def outreach(ctx: Context, lead: Lead) -> Outcome:
    return Outcome(lead.name)


app = AppDefinition(
    app="ioutreach",
    flows=[outreach, enrich],
    activities=[compose, remind],
    pools={"paced": 2},
    patches=["send-twice"],
    max_concurrent_steps=20,
)
named = AppDefinition(app="named", flows={"out": outreach}, activities={"compose": compose})


async def steps(ctx: Context, lead: Lead) -> None:
    assert_type(await ctx.step(compose, lead), str)
    assert_type(await ctx.step(remind, lead, 3, attempts=None, pool="paced"), int)
    assert_type(await ctx.step("compose", lead, result_type=str), str)
    assert_type(await ctx.step("compose", lead, result_type=str | None), str | None)
    assert_type(await ctx.step("compose", lead), Any)
    await ctx.step(compose, lead, non_retryable_types=[ValueError, "Refused"], timeout=5)
    await ctx.step(compose, lead, total_timeout=timedelta(hours=1), backoff=1.5)
    await ctx.step(compose, "lead")  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    await ctx.step(remind, lead)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    await ctx.step(compose, lead, atempts=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await ctx.step(compose, lead, attempts="3")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]


async def children(ctx: Context, lead: Lead) -> None:
    assert_type(await ctx.child(enrich, lead, id="c"), Outcome)
    assert_type(await ctx.child(app.target(enrich), lead, id="c"), Outcome)
    far = Target("iprofile", "enrich", Outcome)
    assert_type(await ctx.child(far, lead, id="c", timeout=3), Outcome)
    assert_type(
        await ctx.child(Target("iprofile", "enrich"), lead, id="c", result_type=Outcome), Outcome
    )
    handle = await ctx.start_child(enrich, lead, id="c", on_existing="attach", priority=1)
    assert_type(handle, ChildHandle[Outcome])
    assert_type(await handle.result(), Outcome)
    await ctx.child(enrich, lead)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await ctx.child(enrich, lead, id="c", on_existing="x")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


async def rest(ctx: Context) -> None:
    assert_type(await ctx.recv("reply", timeout=timedelta(days=1), result_type=str), str | None)
    assert_type(await ctx.recv("reply"), Any)
    assert_type(await ctx.now(), datetime)
    assert_type(await ctx.patched("send-twice"), bool)
    assert_type(ctx.random, Random)
    assert_type(ctx.uuid4(), UUID)
    assert_type(ctx.parent_id, str | None)
    await ctx.set_state("status", {"any": ["value"]})
    await ctx.sleep(timedelta(seconds=1))


async def outside(client: Client, lead: Lead) -> None:
    handle = await client.start(app.target(outreach), lead, id="lead-7", priority=1, timeout=9)
    assert_type(handle, Handle[Outcome])
    assert_type(await handle.result(), Outcome)
    assert_type(await handle.result(timeout=timedelta(seconds=5)), Outcome)
    assert_type(await handle.result(result_type=dict[str, int]), dict[str, int])
    far = await client.start(Target("ioutreach", "outreach", Outcome), lead, id="x")
    assert_type(far, Handle[Outcome])
    plain = await client.start(Target("ioutreach", "outreach"), lead, id="x")
    assert_type(await plain.result(result_type=Outcome), Outcome)
    assert_type(client.handle("x"), Handle[Any])
    assert_type(client.handle("x", result_type=Outcome), Handle[Outcome])
    assert_type(await handle.query("status", result_type=str), str | None)
    assert_type(await handle.describe(), FlowDescription)
    assert_type(await client.list(status="failed"), list[FlowDescription])
    both = await client.signal_with_start(
        app.target(outreach), lead, id="x", topic="reply", value="yes"
    )
    assert_type(both, Handle[Outcome])
    await client.start(app.target(outreach), lead)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await client.start(app.target(outreach), lead, id="x", on_existing="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await client.start(outreach, lead, id="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def engines() -> None:
    async with engine("dbos").client(url="postgresql://") as client:
        assert_type(client, Client)
    async with engine().runtime().running(app, grace=3) as runtime:
        assert_type(runtime, Runtime)
        assert_type(await runtime.done(), None)


def scope(error: FlowError) -> None:
    assert_type(step_attempt(), int)
    assert_type(step_info(), StepInfo)
    assert_type(last_heartbeat(result_type=int), int | None)
    assert_type(error.reason, Reason)
    assert_type(error.exhausted, bool)
    assert_type(error.details_as(Lead), Lead)


async def waiting(ctx: Context, lead: Lead) -> None:
    done, pending = await wait([ctx.step(compose, lead), ctx.step(compose, lead)])
    assert_type([one.result() for one in done + pending], list[str])
    async for one in as_completed([ctx.step(compose, lead)]):
        assert_type(await one, str)
