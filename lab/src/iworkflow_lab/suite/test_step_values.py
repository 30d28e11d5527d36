"""Values: whatever type crosses the port, wherever it crosses, it comes back equal."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from iworkflow.core import FlowError, Handle
from iworkflow_lab.apps.kind_places import CARRIED, KEYED, same
from iworkflow_lab.apps.kind_places import app as places
from iworkflow_lab.apps.kinds import KINDS, Everything, everything, shown
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.stepping import APP, lines, target
from iworkflow_lab.suite.waits import held

PLACES = "iworkflow_lab.apps.kind_places:app"


async def test_S01_each_kind_comes_back(shared: Shared) -> None:
    """Each type of value, as argument and result of a step: equal, and of the same type."""
    arena = await shared.arena_of(APP)
    for kind, (_, value) in KINDS.items():
        handle = await arena.client.start(target("typed"), kind, id=f"s01-{kind}")
        assert await handle.result(timeout=60) is True, kind
        logged = [(line.key, line.result) for line in lines(shared, f"s01-{kind}", "end")]
        assert logged == [(kind, shown(value))]


@pytest.mark.parametrize("fails", [False, True])
async def test_S01_everything_everywhere(shared: Shared, fails: bool) -> None:
    """All kinds inside one another, in every place where a value can stand.

    Input and outcome of a flow, message, state, argument and result of a step, heartbeat, the
    details of a step's failure and of a run's.
    """
    arena = await shared.arena_of(APP)
    value, run = everything(), f"s01-everywhere-{fails}"
    handle = await arena.client.start(target("everywhere"), value, id=run)
    await handle.signal("value", value)
    await handle.signal("fail", fails)
    if fails:
        with pytest.raises(FlowError) as caught:
            await handle.result(timeout=60)
        assert caught.value.type == "Typed"
        assert caught.value.details_as(Everything) == value
    else:
        assert await handle.result(result_type=Everything, timeout=60) == value
    assert await handle.query("value", result_type=Everything) == value
    assert arena.log.ended(run) == {
        ("everything", "1"): 1,
        ("everything", "2"): 1,
        ("detailed", "detailed"): 1,
    }


async def carried(arena: Arena, kind: str) -> Handle[Any]:
    """Start the run of a kind, send it its message, and wait until it has told what it saw."""
    run, value = f"s01-place-{kind}", CARRIED[kind][1]
    handle = await arena.client.start(places.target(f"carry_{kind}"), value, id=run)
    if kind not in KEYED:
        await handle.signal("value", value)
    await held(arena, run, "gate", seconds=120)
    return handle


async def test_S01_each_kind_in_each_place(shared: Shared) -> None:
    """Each type of value, alone and nested, in every place where it can stand; after a KILL, too.

    Input and outcome of a flow and of a child, a client's message and a flow's, state, heartbeat,
    the details of a step's failure and of a child's. What has keys that are no strings is refused
    where there is no hint to write it by, naming place and key.
    """
    arena = await shared.arena_of(PLACES)
    started = await asyncio.gather(*(carried(arena, kind) for kind in CARRIED))
    handles = dict(zip(CARRIED, started, strict=True))
    await shared.kill(PLACES)
    await shared.arena_of(PLACES)
    for kind, handle in handles.items():
        hint, value = CARRIED[kind]
        await held(arena, handle.id, "gate")
        assert await handle.query("wrong") == [], kind
        await stated(handle, kind)
        arena.let_go(f"{handle.id}.gate")
        assert same(await handle.result(result_type=hint, timeout=60), value), kind
        attempts = {"1": 1} if kind in KEYED else {"1": 1, "2": 1}
        steps = {(f"step_{kind}", attempt): count for attempt, count in attempts.items()}
        assert arena.log.ended(handle.id) == steps | {("held", "gate"): 1}
        seen = {e.result for e in arena.log.read(handle.id) if e.step == f"step_{kind}"}
        assert seen - {""} == {shown(value)}, kind


async def stated(handle: Handle[Any], kind: str) -> None:
    """Check the state of the kind, or what its flow tells of being refused one."""
    hint, value = CARRIED[kind]
    if kind not in KEYED:
        assert same(await handle.query("value", result_type=hint), value), kind
        return
    told = await handle.query("refused")
    assert [one.split(":")[0] for one in told] == ["message", "state"]
    assert all("the key" in one for one in told), told
    with pytest.raises(TypeError, match="the key"):
        await handle.signal("value", value)
