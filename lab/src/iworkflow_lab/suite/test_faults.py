"""Faults: a worker that never comes back."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import time

from iworkflow.core import Target
from iworkflow_lab.barrier import kill
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.waits import ended, held

APP = "iworkflow_lab.apps.determinism:app"


async def test_F12_the_other_worker_goes_on(arena: Arena) -> None:
    """One of two workers is killed and never returns: the other has its runs within 20 s."""
    for _ in range(2):
        await arena.worker(APP, silence=None)
    keys = ["first", "second"]
    runs = [f"f12-{n}" for n in range(4)]
    target: Target[list[str]] = Target("determinism", "bystander")
    handles = [await arena.client.start(target, keys, id=run) for run in runs]
    for run in runs:
        await held(arena, run, "first")
        await ended(arena, run, "first")
        await held(arena, run, "second")
    victim = await arena.owner(runs[0])
    orphans = [run for run in runs if await arena.owner(run) is victim]
    await kill(arena, victim, runs[0])
    died = time.monotonic()
    for run in orphans:
        await held(arena, run, "second")
    assert time.monotonic() - died < 20
    for run in runs:
        arena.let_go(f"{run}.all")
    assert [await handle.result(timeout=20) for handle in handles] == [keys] * len(runs)
    for run in runs:
        assert arena.log.ended(run) == {("work", key): 1 for key in keys}
