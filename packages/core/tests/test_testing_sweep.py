"""The sweep: a crash at every point, and what it reports."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from iworkflow.core.client import Handle
from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition, Target
from iworkflow.core.errors import Failure, FlowError
from iworkflow.core.memory.host import MemoryHost
from iworkflow.core.testing import FlowTest, Stuck, sweep


async def square(n: int) -> int:
    return n * n


async def refuse(n: int) -> int:
    raise Failure("no", type="Refused", non_retryable=True, benign=True)


async def kid(ctx: Context, n: int) -> int:
    await ctx.sleep(5)
    return await ctx.step(square, n)


async def parent(ctx: Context, n: int) -> dict[str, Any]:
    squares = await asyncio.gather(*(ctx.step(square, i) for i in range(n)))
    await ctx.set_state("squares", squares)
    try:
        await ctx.step(refuse, n)
    except FlowError as error:
        await ctx.set_state("refused", error.type)
    of_kid = await ctx.child(Target("kids-app", "kid"), 7, id="kid", result_type=int)
    await ctx.signal(ctx.workflow_id, "self", {"from": "me"})
    async with asyncio.timeout(60):
        mine = await ctx.recv("self")
    reply = await ctx.recv("reply", timeout=timedelta(hours=1))
    return {"squares": squares, "kid": of_kid, "self": mine, "reply": reply}


parents = AppDefinition("parents", flows=[parent], activities=[square, refuse])
kids = AppDefinition("kids-app", flows=[kid], activities=[square])


async def reply(t: FlowTest, run: Handle[Any]) -> None:
    t.signal_at(timedelta(minutes=30), run.id, "reply", "yes")


async def test_a_sound_flow_survives_a_crash_at_every_point() -> None:
    """Gather, failed step, child in another app, messages, state, timers: nothing differs."""
    report = await sweep(parents, parent, 3, others=[kids], script=reply)
    report.check()
    assert report.points > 35
    assert str(report) == f"{report.points} of {report.points} crashes made no difference"


async def test_a_step_whose_result_depends_on_how_often_it_ran_is_found() -> None:
    """The report names the point and what differed."""

    def fresh() -> dict[Any, Any]:
        calls: list[int] = []

        def count(n: int) -> int:
            calls.append(n)
            return len(calls)

        return {"square": count}

    async def flow(ctx: Context) -> int:
        return await ctx.step(square, 1)

    counting = AppDefinition("counting", flows=[flow], activities=[square])
    report = await sweep(counting, flow, steps=fresh)
    assert [d.point.moment.value for d in report.differences] == ["effect"]
    with pytest.raises(AssertionError, match=r"after the effect of step 'square' .* outcome"):
        report.check()


async def test_an_engine_that_repeats_recorded_steps_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host that forgets its history at a dispatch shows as steps that ran too often."""
    monkeypatch.setattr(MemoryHost, "history", {})
    real = MemoryHost.perform

    async def forgetful(self: MemoryHost, place: int, operation: Any) -> Any:
        self._run.history.pop(place, None)
        return await real(self, place, operation)

    monkeypatch.setattr(MemoryHost, "perform", forgetful)

    async def flow(ctx: Context) -> int:
        return await ctx.step(square, 1) + await ctx.step(square, 2)

    doubling = AppDefinition("doubling", flows=[flow], activities=[square])
    report = await sweep(doubling, flow)
    assert any(
        "step 'square' of 'sweep' ran 2 times, not 1 to 1" in str(d) for d in report.differences
    )


async def test_a_flow_that_never_ends_is_refused() -> None:
    """Without a crash it must come to an end, else `Stuck` says what it waits for."""

    async def waits(ctx: Context) -> None:
        await ctx.recv("never")

    with pytest.raises(Stuck, match="recv 'never'"):
        await sweep(AppDefinition("waits", flows=[waits]), waits)
