"""States: what a query answers while a flow runs, and after its end."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from iworkflow.core import Failure, FlowError, Handle, Target
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import held

APP = "iworkflow_lab.apps.states:app"
TELLS: Target[Any] = Target("states", "tells")


@dataclass(frozen=True)
class Point:
    """A state with a type."""

    x: int
    tags: list[str]


POINT = Point(7, ["a", "ü\0"])


async def telling(arena: Arena, run: str, how: str, **options: Any) -> Handle[Any]:
    """Start a run and wait until it has set its first states."""
    handle = await arena.client.start(TELLS, POINT, how, id=run, **options)
    await held(arena, run, "gate")
    return handle


async def states(handle: Handle[Any]) -> list[Any]:
    """Query what the flow sets."""
    value = await handle.query("value", result_type=Point)
    return [value, await handle.query("falsy"), await handle.query("place")]


async def test_Q01_of_a_running_flow(shared: Shared) -> None:
    """While a flow runs, a query gives the last value set, with its type."""
    arena = await shared.arena_of(APP)
    handle = await telling(arena, "q01", "completed")
    assert await states(handle) == [POINT, 0, "before"]
    arena.let_go("q01.gate")
    await held(arena, "q01", "end")
    assert await states(handle) == [POINT, 0, "after"]
    with pytest.raises(Failure) as raised:
        await handle.query("place", result_type=int)
    assert raised.value.type == "DecodeError"
    arena.let_go("q01.end")
    assert await handle.result(timeout=20) == "completed"
    assert arena.log.ended("q01") == {("held", "gate"): 1, ("held", "end"): 1}


async def test_Q02_of_a_completed_flow(shared: Shared) -> None:
    """After a flow has completed, a query gives the last value set."""
    arena = await shared.arena_of(APP)
    handle = await telling(arena, "q02", "completed")
    arena.let_go("q02.all")
    assert await handle.result(timeout=20) == "completed"
    assert await states(handle) == [POINT, 0, "after"]
    assert arena.log.ended("q02") == {("held", "gate"): 1, ("held", "end"): 1}


@pytest.mark.parametrize("how", ["failed", "terminated", "timed-out"])
async def test_Q03_of_a_flow_that_came_to_nothing(shared: Shared, how: str) -> None:
    """After a flow has failed, been terminated or timed out: the last value set."""
    arena = await shared.arena_of(APP)
    run = f"q03-{how}"
    handle = await telling(arena, run, how, timeout=4 if how == "timed-out" else None)
    arena.let_go(f"{run}.gate")
    await held(arena, run, "end")
    if how == "failed":
        arena.let_go(f"{run}.end")
    elif how == "terminated":
        await handle.terminate()
    with pytest.raises(FlowError) as raised:
        await handle.result(timeout=20)
    assert raised.value.reason == ("timeout" if how == "timed-out" else how)
    assert (await handle.describe()).status == how
    assert await states(handle) == [POINT, 0, "after"]
    assert arena.log.ended(run)["held", "gate"] == 1
    assert arena.log.ended(run)["held", "end"] == (how == "failed")


async def test_Q04_a_missing_key(shared: Shared) -> None:
    """A key that was never set gives None: while the flow runs, and after its end."""
    arena = await shared.arena_of(APP)
    handle = await telling(arena, "q04", "completed")
    assert await handle.query("never") is None
    assert await handle.query("never", result_type=Point) is None
    arena.let_go("q04.all")
    assert await handle.result(timeout=20) == "completed"
    assert await handle.query("never") is None
    assert arena.log.ended("q04") == {("held", "gate"): 1, ("held", "end"): 1}


async def test_Q05_a_missing_flow(shared: Shared) -> None:
    """A query of a flow that is missing raises `not-found`, and does not wait."""
    arena = await shared.arena_of(APP)
    with pytest.raises(FlowError) as raised:
        await asyncio.wait_for(arena.client.handle("q05-missing").query("value"), 5)
    assert raised.value.reason == "not-found"
    assert "q05-missing" in str(raised.value)
    assert arena.log.begun("q05-missing") == {}


async def test_Q07_no_worker_alive(shared: Shared) -> None:
    """With no worker alive, a query of a running and of a finished flow gives the last value."""
    arena = await shared.arena_of(APP)
    over = await telling(arena, "q07-over", "completed")
    arena.let_go("q07-over.all")
    assert await over.result(timeout=20) == "completed"
    handle = await telling(arena, "q07", "completed")
    await shared.kill(APP)
    assert await asyncio.wait_for(states(handle), 5) == [POINT, 0, "before"]
    assert await asyncio.wait_for(states(over), 5) == [POINT, 0, "after"]
    assert await asyncio.wait_for(handle.query("never"), 5) is None
    await shared.arena_of(APP)
    arena.let_go("q07.all")
    assert await handle.result(timeout=20) == "completed"
    assert arena.log.ended("q07") == {("held", "gate"): 1, ("held", "end"): 1}
