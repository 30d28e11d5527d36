"""Time, random numbers, logs: the same again after a KILL."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import time
from datetime import datetime
from typing import Any
from uuid import UUID

from iworkflow.core import Target
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import ended, held

APP = "iworkflow_lab.apps.clocks:app"
SLEPT = {("clock", "before"): 1, ("clock", "after"): 1}
EARLY = 0.005
"""Seconds by which two readings of one clock may differ in rounding."""


def target(flow: str) -> Target[Any]:
    """Name a flow of the clocks app."""
    return Target("clocks", flow)


async def test_T01_a_sleep_of_one_second(shared: Shared) -> None:
    """`sleep(1)` takes a second, and not much more, by the wall and by the flow's clock."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("sleeps"), 1, id="t01")
    begin, end, first, last = await handle.result(timeout=20)
    assert 1 - EARLY <= last - first <= end - begin + EARLY
    assert end - begin < 3
    assert arena.log.ended("t01") == SLEPT


async def test_T04_no_sleep_and_less(shared: Shared) -> None:
    """`sleep(0)` returns at once, a negative one raises `ValueError` naming the duration."""
    arena = await shared.arena_of(APP)
    result = await (await arena.client.start(target("no_sleep"), id="t04")).result(timeout=20)
    assert result["took"] < 2
    assert "duration" in result["refused"]
    assert "-1" in result["refused"]
    assert arena.log.ended("t04") == SLEPT | {("clock", "caught"): 1}


async def killed_between(shared: Shared, flow: str, run: str) -> tuple[list[Any], list[Any]]:
    """Kill a run in its gate; return what it showed before, and its result."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target(flow), id=run)
    await held(arena, run, "between")
    first = await handle.query("first")
    await shared.kill(APP)
    await shared.arena_of(APP)
    await held(arena, run, "between")
    assert await handle.query("first") == first
    arena.let_go(f"{run}.between")
    result = await handle.result(timeout=20)
    assert arena.log.ended(run) == {("held", "between"): 1}
    return first, result


async def test_T05_now_replays(shared: Shared) -> None:
    """`now()` gives aware UTC times that go forward; after a KILL the same ones again."""
    before = time.time()
    first, result = await killed_between(shared, "moments", "t05")
    assert result[:3] == first
    assert {zone for _, zone in first} == {"UTC"}
    times = [datetime.fromisoformat(text) for text, _ in result]
    assert times == sorted(times)
    assert before - 1 < times[0].timestamp() < times[-1].timestamp() < time.time() + 1
    assert datetime.fromisoformat(result[3][1]) <= times[0]


async def test_T06_random_values_replay(shared: Shared) -> None:
    """`uuid4` and `random` give after a KILL what they gave before, and never the same twice."""
    first, result = await killed_between(shared, "draws", "t06")
    assert result[: len(first)] == first
    ids = [UUID(result[place]) for place in (0, 3, 4)]
    assert {one.version for one in ids} == {4}
    assert len(set(ids)) == 3
    assert result[1] != result[5]
    arena = await shared.arena_of(APP)
    arena.let_go("t06-other.between")
    other = await (await arena.client.start(target("draws"), id="t06-other")).result(timeout=20)
    assert not set(other) & set(result)


async def test_T07_a_line_is_logged_once(shared: Shared) -> None:
    """A line before a recorded step is logged once, however often the run is replayed.

    It carries the id of the run, its flow and its app.
    """
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("logs"), id="t07")
    for key in ("gate", "last"):
        await held(arena, "t07", key)
        await shared.kill(APP)
        await shared.arena_of(APP)
        await held(arena, "t07", key)
        await ended(arena, "t07", key)
    assert await handle.result(timeout=20) == "logged"
    lines = [line for line in arena.printed().splitlines() if "of t07" in line]
    facts = "WARNING workflow_id=t07 flow=logs app=clocks"
    assert lines == [f"{facts} line {n} of t07" for n in ("one", "two", "three")]
    expected = {("clock", "recorded"): 1, ("held", "gate"): 1, ("held", "last"): 1}
    assert arena.log.ended("t07") == expected
