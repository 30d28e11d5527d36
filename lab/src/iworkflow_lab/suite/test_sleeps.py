"""Sleeps that a worker does not live through: how much of them is slept afterwards."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import time
from typing import Any

from iworkflow.core import Handle, Target
from iworkflow_lab.barrier import kill
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.until import until

APP = "iworkflow_lab.apps.clocks:app"
BACK = 4.0
"""Seconds in which a run goes on once a worker is back, at most."""


async def killed(arena: Arena, run: str, seconds: float, after: float) -> Handle[Any]:
    """Start a run that sleeps, and kill its worker so many seconds later."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(Target("clocks", "sleeps"), seconds, id=run)
    await until(lambda: arena.log.ended(run)["clock", "before"], "the flow begins")
    begun = time.time()
    await until(lambda: time.time() > begun + after, "a part of the sleep is over")
    await kill(arena, worker, run)
    assert time.time() < begun + seconds, "the sleep is over too early; the test says nothing"
    return handle


async def test_T02_what_was_slept_counts(arena: Arena) -> None:
    """Killed with more of the sleep behind it than a worker needs to come back: only the rest."""
    length, before = 14.0, 6.0
    handle = await killed(arena, "t02-rest", length, before)
    await arena.worker(APP)
    back = time.time()
    _, end, first, last = await handle.result(timeout=60)
    assert last - first >= length - 0.005
    assert end - max(first + length, back) < BACK < before
    assert arena.log.ended("t02-rest") == {("clock", "before"): 1, ("clock", "after"): 1}


async def test_T03_nothing_is_slept_again(arena: Arena) -> None:
    """A sleep that ended while nothing ran, longer than a worker needs to come back: at once."""
    length = 8.0
    handle = await killed(arena, "t03-rest", length, 1.0)
    (begin,) = (e.at for e in arena.log.read("t03-rest") if e.what == "end")
    await until(lambda: time.time() > begin + length + 0.5, "the sleep's end passes")
    await arena.worker(APP)
    back = time.time()
    _, end, *_ = await handle.result(timeout=60)
    assert end - back < BACK < length
    assert arena.log.ended("t03-rest") == {("clock", "before"): 1, ("clock", "after"): 1}
