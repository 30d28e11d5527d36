"""What the step scenarios ask and look at."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from iworkflow.core import Handle, Target
from iworkflow_lab.effects import Effect
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.until import until

APP = "iworkflow_lab.apps.steps:app"
NARROW = "iworkflow_lab.apps.steps:narrow"


def target(flow: str, app: str = "steps") -> Target[Any]:
    """Name a flow of the steps app."""
    return Target(app, flow)


async def begin(
    arena: Arena, run: str, step: str, *args: Any, flow: str = "tell", **options: Any
) -> Handle[Any]:
    """Start a run of one step."""
    return await arena.client.start(target(flow), step, list(args), options, id=run)


async def tell(shared: Shared, run: str, step: str, *args: Any, **options: Any) -> Any:
    """Run one step and return its result, or its error as data."""
    arena = await shared.arena_of(APP)
    handle = await begin(arena, run, step, *args, **options)
    return await handle.result(timeout=60)


def lines(shared: Shared, run: str, what: str) -> list[Effect]:
    """Return the lines of one sort."""
    return [effect for effect in shared.arena.log.read(run) if effect.what == what]


def keys(shared: Shared, run: str, what: str = "begin") -> list[str]:
    """Return their keys in order."""
    return [effect.key for effect in lines(shared, run, what)]


def gaps(shared: Shared, run: str) -> list[float]:
    """Return the seconds from the last line of each execution to the begin of the next."""
    last: dict[str, float] = {}
    for effect in shared.arena.log.read(run):
        last[effect.call] = effect.at
    begun = lines(shared, run, "begin")
    return [after.at - last[before.call] for before, after in pairwise(begun)]


async def seen(shared: Shared, run: str, what: str, *, key: str | None = None) -> Effect:
    """Wait for the first line of one sort, and of one key if it is given."""

    def found() -> list[Effect]:
        return [e for e in lines(shared, run, what) if key in (None, e.key)]

    await until(found, f"{run}: {what} {key or ''}")
    return found()[0]


async def past(moment: float) -> None:
    """Wait until the clock has passed a moment."""
    await until(lambda: time.time() > moment, "time goes on")


def peak(effects: list[Effect]) -> int:
    """Return how many executions went on at once at most."""
    most = now = 0
    for effect in effects:
        now += {"begin": 1, "end": -1}.get(effect.what, 0)
        most = max(most, now)
    return most
