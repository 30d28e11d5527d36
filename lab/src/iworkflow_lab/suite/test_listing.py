"""What is told of runs: their times, and lists by prefix, letter by letter."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import time
from functools import partial
from typing import Any

from iworkflow.core import Target
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import held
from iworkflow_lab.until import until

APP = "iworkflow_lab.apps.children:app"
ONE: Target[Any] = Target("children", "one")

EARLY = 0.1
"""Seconds by which the clocks of two processes may differ in rounding."""

NAMES = ["a_b", "axb", "a%b", "a-long-b", "A_b", "a\\b", "a'b", 'a"b', "a*b", "a.b", "aéb"]
"""Names of which each begins with `a` or `A`, and none with another one."""


async def test_L07_a_prefix_is_no_pattern(shared: Shared) -> None:
    """A prefix stands for itself at the begin of an id: no wildcard, no quote, and in its case."""
    arena = await shared.arena_of(APP)
    for name in NAMES:
        for id in (f"{name}-first", f"not {name}"):
            handle = await arena.client.start(ONE, "k", id=id)
            arena.let_go(f"{id}.all")
            assert await handle.result(timeout=20) == "k"
    for name in NAMES:
        await until(partial(gives, arena, name), f"{name!r} gives its run alone", seconds=10)
        assert arena.log.ended(f"{name}-first") == {("work", "k"): 1}


async def gives(arena: Arena, name: str) -> bool:
    """Tell whether the list of a prefix is its own run alone."""
    return [run.id for run in await arena.client.list(id_prefix=name)] == [f"{name}-first"]


async def test_L01_the_times_are_the_runs_own(shared: Shared) -> None:
    """`started_at` is when the run was started, `closed_at` when it ended: by the wall clock."""
    arena = await shared.arena_of(APP)
    before = time.time()
    handle = await arena.client.start(ONE, "k", id="l01-times")
    started = time.time()
    await held(arena, "l01-times", "k")
    await until(lambda: time.time() > started + 1, "the run goes on for a while")
    ending = time.time()
    arena.let_go("l01-times.all")
    assert await handle.result(timeout=20) == "k"
    run = await handle.describe()
    assert before - EARLY <= run.started_at.timestamp() <= started + EARLY
    assert run.closed_at is not None
    assert ending - EARLY <= run.closed_at.timestamp() <= time.time() + EARLY
    assert arena.log.ended("l01-times") == {("work", "k"): 1}
