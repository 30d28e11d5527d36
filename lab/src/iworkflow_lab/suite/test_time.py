"""Time, random numbers, logs: the same again after a KILL."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import time
from datetime import datetime
from typing import Any
from uuid import UUID

from iworkflow.core import Handle, Target
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import ended, held
from iworkflow_lab.until import until

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


async def asleep(arena: Arena, run: str, seconds: float) -> tuple[Handle[Any], float]:
    """Start a sleeping run; return once it sleeps, with the time before which it began to."""
    handle = await arena.client.start(target("sleeps"), seconds, id=run)
    await until(lambda: arena.log.ended(run)["clock", "before"], "the flow begins")
    begun = time.time()
    await until(lambda: time.time() > begun + 1, "the sleep is begun")
    return handle, begun


async def test_T02_a_kill_during_a_sleep(shared: Shared) -> None:
    """After a KILL in a sleep only the rest is slept: neither longer nor shorter."""
    arena = await shared.arena_of(APP)
    handle, _ = await asleep(arena, "t02", LONG)
    await shared.kill(APP)
    await shared.arena_of(APP)
    back = time.time()
    begin, end, first, last = await handle.result(timeout=LONG + 30)
    assert back < first + LONG, "the worker was not back in time; the test says nothing"
    assert end - begin >= LONG - EARLY
    assert last - first >= LONG - EARLY
    assert end - first < LONG + 3
    assert arena.log.ended("t02") == SLEPT


LONG = 15.0
"""Seconds of a sleep that is longer than a worker takes to come back."""


async def test_T03_down_past_the_end_of_a_sleep(shared: Shared) -> None:
    """A sleep whose end passed while nothing ran is over at once when a worker is back."""
    arena = await shared.arena_of(APP)
    handle, begun = await asleep(arena, "t03", SHORT)
    await shared.kill(APP)
    assert time.time() < begun + SHORT, "the worker was not dead in time; the test says nothing"
    await until(lambda: time.time() > begun + SHORT + 0.5, "the sleep's end passes")
    await shared.arena_of(APP)
    back = time.time()
    begin, end, *_ = await handle.result(timeout=20)
    assert begin <= begun
    assert end - back < SHORT
    assert arena.log.ended("t03") == SLEPT


SHORT = 4.0
"""Seconds of a sleep that ends while no worker lives; a worker takes over in less."""


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
    """A line before a recorded step is logged once, however often the run is replayed."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("logs"), id="t07")
    for key in ("gate", "last"):
        await held(arena, "t07", key)
        await shared.kill(APP)
        await shared.arena_of(APP)
        await held(arena, "t07", key)
        await ended(arena, "t07", key)
    assert await handle.result(timeout=20) == "logged"
    printed = arena.printed()
    assert [printed.count(f"line {n} of t07") for n in ("one", "two", "three")] == [1, 1, 1]
    expected = {("clock", "recorded"): 1, ("held", "gate"): 1, ("held", "last"): 1}
    assert arena.log.ended("t07") == expected
