"""Code that does not fit: runs are parked, say why, and go on once it is put right."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from iworkflow.core import FlowError, Handle, Reason, Status, Target
from iworkflow_lab.apps import clocked
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import held
from iworkflow_lab.until import until

BEFORE = "iworkflow_lab.apps.parked:before"
AFTER = "iworkflow_lab.apps.parked:after"
CLOCKED = "iworkflow_lab.apps.clocked:app"

REMEDY = "restore the order or guard the change with ctx.patched(...)"
STEPS = [("first", "k"), ("second", "k"), ("third", "k")]


def target(flow: str, app: str = "parked") -> Target[Any]:
    """Name a flow of the app whose code is changed."""
    return Target(app, flow)


def lines_about(arena: Arena, run: str) -> list[str]:
    """Return what the workers' log says of a run that is parked."""
    said = f"flow {run!r} parked"
    return [said + line.partition(said)[2] for line in arena.printed().splitlines() if said in line]


async def begin(arena: Arena, flow: str, run: str, **options: Any) -> Handle[Any]:
    """Start a run and bring it into its third step, which is held."""
    handle = await arena.client.start(target(flow), id=run, **options)
    await held(arena, run, "k")
    await until(lambda: ("third", "k") in arena.log.begun(run), f"{run} is in its third step")
    return handle


def tokens(arena: Arena, run: str) -> list[str]:
    """Return the one execution of each step that ended."""
    ends = {e.step: e.call for e in arena.log.read(run) if e.what == "end"}
    assert arena.log.ended(run) == dict.fromkeys(STEPS, 1)
    return [ends[step] for step, _ in STEPS]


async def deploy(shared: Shared, version: str) -> Arena:
    """Have a worker of this version, and none of the other."""
    await shared.stop(AFTER if version == BEFORE else BEFORE)
    return await shared.arena_of(version)


async def poke(handle: Handle[Any]) -> None:
    """Make a run go on: its code meets its history at the latest now."""
    await handle.signal("unread", True)


async def parked(arena: Arena, run: str, why: str) -> None:
    """Wait until a worker says that the run is parked, and why: a pattern."""
    await until(lambda: lines_about(arena, run), f"{run} is parked")
    said_once(arena, run, why)


def said_once(arena: Arena, run: str, why: str) -> None:
    """Check that a worker said why the run is parked: the pattern in full, and no text twice."""
    pattern = rf"flow {run!r} parked at operation {why}; {re.escape(REMEDY)}"
    lines = lines_about(arena, run)
    assert all(re.fullmatch(pattern, line) for line in lines)
    assert len(lines) == len(set(lines))


async def changed(shared: Shared, prefix: str, changes: dict[str, str], *, killed: bool) -> None:
    """Let runs meet changed code, which parks them, then the code that fits them again.

    Args:
        shared: the arena.
        prefix: what the ids begin with.
        changes: the flows, and why their runs are parked.
        killed: whether the worker of the changed code is killed, or stopped.
    """
    arena = await deploy(shared, BEFORE)
    handles = {flow: await begin(arena, flow, f"{prefix}-{flow}") for flow in changes}
    other = await begin(arena, "fits", f"{prefix}-fits")
    await deploy(shared, AFTER)
    for flow, why in changes.items():
        await poke(handles[flow])
        await parked(arena, f"{prefix}-{flow}", why)
    for handle in handles.values():
        await poke(handle)
    young = await arena.client.start(target("fits"), id=f"{prefix}-young")
    for handle in (other, young):
        arena.let_go(f"{handle.id}.all")
        assert await handle.result(timeout=30) == tokens(arena, handle.id)
    for handle in handles.values():
        assert (await handle.describe()).status == "running"
        begun = arena.log.begun(handle.id)
        assert set(begun) == set(STEPS)
        assert (begun["first", "k"], begun["second", "k"]) == (1, 1)
    if killed:
        await shared.kill(AFTER)
    await deploy(shared, BEFORE)
    for handle in handles.values():
        arena.let_go(f"{handle.id}.all")
        assert await handle.result(timeout=30) == tokens(arena, handle.id)
        said_once(arena, handle.id, changes[handle.id.removeprefix(f"{prefix}-")])


async def test_D06_a_step_is_renamed(shared: Shared) -> None:
    """Another name or other arguments: parked, said where and why; put right, it goes on."""
    changes = {
        "renamed": "2: recorded step 'second', the code asks for 'second_v2'",
        "renamed_branch": "2: recorded step 'second', the code asks for 'second_v2'",
        "other_arguments": "2: recorded step 'second' with other arguments",
    }
    await changed(shared, "d06", changes, killed=True)


async def test_D07_a_step_is_inserted(shared: Shared) -> None:
    """One step more, wherever it is: parked, said where and why; put right, it goes on."""
    changes = {
        "inserted": "2: recorded step 'second', the code asks for 'extra'",
        "inserted_first": "1: recorded step 'first', the code asks for 'extra'",
        "inserted_sleep": "2: recorded step 'second', the code asks for sleep",
        "inserted_branch": "1: recorded step 'first', the code asks for 'extra'",
    }
    await changed(shared, "d07", changes, killed=False)


async def test_D08_a_step_is_removed(shared: Shared) -> None:
    """One step less, be it in the middle or the rest: parked; put right, it goes on."""
    changes = {
        "removed": "2: recorded step 'second', the code asks for 'third'",
        "removed_first": "1: recorded step 'first', the code asks for 'second'",
        "removed_rest": "2: recorded step 'second', the code ends before it",
        # At the fork it lacks a branch, after it the step to come: what is found first is told.
        "removed_branch": "2: recorded step 'second', the code "
        "(asks for 'third'|waits for step 'first')",
    }
    await changed(shared, "d08", changes, killed=True)


async def test_T07_a_parked_run_repeats_no_line(shared: Shared) -> None:
    """Parked, poked, killed, parked again and put right: each line of the flow is logged once.

    That it is parked is told once by each worker that comes to it.
    """
    arena, run = await deploy(shared, BEFORE), "t07-parked"
    handle = await begin(arena, "logged", run)
    for count in (1, 2):
        await deploy(shared, AFTER)
        for _ in range(3):
            await poke(handle)
        await until(partial(said, arena, run, count), "it is parked")
        await passes_by(arena, f"{run}-other-{count}")
        assert len(lines_about(arena, run)) == count
        await shared.kill(AFTER)
    await deploy(shared, BEFORE)
    arena.let_go(f"{run}.all")
    assert await handle.result(timeout=30) == tokens(arena, run)
    assert len(set(lines_about(arena, run))) == 1
    printed = arena.printed()
    lines = ("one", "two", "three", "new")
    assert [printed.count(f"line {line} of {run}") for line in lines] == [1, 1, 1, 0]


def said(arena: Arena, run: str, count: int) -> bool:
    """Tell whether it was said so often that the run is parked."""
    return len(lines_about(arena, run)) >= count


async def passes_by(arena: Arena, run: str) -> None:
    """Let another run go to its end meanwhile."""
    arena.let_go(f"{run}.all")
    handle = await arena.client.start(target("fits"), id=run)
    assert await handle.result(timeout=30) == tokens(arena, run)


async def test_D06_a_parked_run_can_be_terminated(shared: Shared) -> None:
    """A parked run ends when it is terminated; the code put right, nothing of it runs."""
    arena = await deploy(shared, BEFORE)
    handle = await begin(arena, "renamed", "d06-ended")
    await deploy(shared, AFTER)
    await poke(handle)
    await until(lambda: lines_about(arena, "d06-ended"), "the run is parked")
    begun = arena.log.begun("d06-ended")
    await handle.terminate(reason="enough")
    with pytest.raises(FlowError, match="enough") as raised:
        await handle.result(timeout=20)
    assert raised.value.reason is Reason.TERMINATED
    await deploy(shared, BEFORE)
    other = await begin(arena, "fits", "d06-other")
    arena.let_go("d06-other.all")
    assert await other.result(timeout=20) == tokens(arena, "d06-other")
    assert arena.log.begun("d06-ended") == begun
    assert (await handle.describe()).status is Status.TERMINATED


CLOCKS = ["time.time", "datetime.datetime.now", "time.localtime"]


@pytest.mark.parametrize("clock", CLOCKS)
async def test_D09_a_branch_on_the_wall_clock(shared: Shared, clock: str) -> None:
    """Refused when it is asked, naming line and remedy, or parked when it goes otherwise."""
    arena, run, before = await shared.arena_of(CLOCKED), f"d09-{clock}", ("token", "before")
    handle = await arena.client.start(target("branches", "clocked"), clock, id=run)

    async def settled() -> bool:
        running = (await handle.describe()).status is Status.RUNNING
        return not running or bool(arena.log.in_flight(run))

    await until(settled, "the branch is refused, or taken")
    if not arena.log.in_flight(run):
        with pytest.raises(FlowError) as raised:
            await handle.result(timeout=20)
        assert raised.value.message == refusal(clock)
        assert arena.log.begun(run) == {before: 1}
        return
    await shared.kill(CLOCKED)
    taken = arena.log.read(run)[-1].at
    await until(lambda: time.time() > taken + clocked.EARLY + 1, "the other branch is due")
    await shared.arena_of(CLOCKED)
    await handle.signal("news", "an engine may replay a run only when something comes in")
    await parked(arena, run, "3: recorded step 'early', the code asks for 'late'")
    assert (await handle.describe()).status is Status.RUNNING
    assert arena.log.ended(run) == {before: 1, ("early", "branch"): 1}
    await handle.terminate()


def refusal(clock: str) -> str:
    """Return what is said of a clock in a flow."""
    line = line_of(clock if clock == "time.localtime" else f"return {clock}")
    return f'clocked.py:{line}: {clock}() in a flow is not replay-stable; use "await ctx.now()"'


def line_of(text: str) -> int:
    """Return the number of the only line of the flows that holds the text."""
    lines = Path(str(clocked.__file__)).read_text().splitlines()
    [number] = [n for n, line in enumerate(lines, 1) if text in line and '"' not in line]
    return number


async def test_D12_a_flow_holds_up_the_loop(shared: Shared) -> None:
    """Flow code that blocks is named in a warning, with run and line; the run goes on."""
    arena = await shared.arena_of(CLOCKED)
    for flow in ("holds", "brief"):
        handle = await arena.client.start(target(flow, "clocked"), id=f"d12-{flow}")
        assert await handle.result(timeout=30) == [
            e.call for e in arena.log.read(handle.id) if e.what == "end"
        ]
        assert arena.log.begun(handle.id) == {("token", "first"): 1, ("token", "second"): 1}
    said = [line for line in arena.printed().splitlines() if "holds the event loop" in line]
    assert [line for line in said if "d12-brief" in line] == []
    line = line_of("this line is named")
    warnings = [line for line in said if "'d12-holds'" in line]
    assert warnings
    for warning in warnings:  # one for each time that it blocks; a replay may block again
        assert f"clocked.py:{line}: flow 'holds' of run 'd12-holds'" in warning
        assert "move the work into a step" in warning
