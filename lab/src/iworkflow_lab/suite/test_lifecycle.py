"""Lives of runs, of clients and of workers."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from iworkflow.core import FlowDescription, FlowError, Handle, Reason, Status, Target
from iworkflow.core.lockstep import installed
from iworkflow_lab.effects import Effect
from iworkflow_lab.engines import ENGINES
from iworkflow_lab.engines.base import Arena, EngineLab
from iworkflow_lab.processes import Process, WorkerDied
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import held
from iworkflow_lab.until import until

APP = "iworkflow_lab.apps.lifecycle:app"
DEADLINE = 1.5
"""Seconds until the deadline of a run that is to meet it in a step."""


def target(flow: str) -> Target[Any]:
    """Name a flow of the lifecycle app."""
    return Target("lifecycle", flow)


async def failure(handle: Handle[Any]) -> FlowError:
    """Return the error that a run comes to."""
    with pytest.raises(FlowError) as caught:
        await handle.result(timeout=20)
    return caught.value


async def found(arena: Arena, **filter: Any) -> list[str]:
    """List ids."""
    return [run.id for run in await arena.client.list(**filter)]


def effects(arena: Arena, run: str, what: str) -> list[Effect]:
    """Return the run's effects of one sort."""
    return [effect for effect in arena.log.read(run) if effect.what == what]


async def one_of_each(arena: Arena, prefix: str) -> dict[Status, Handle[Any]]:
    """Bring a run into each of the five statuses."""
    start = arena.client.start
    handles = {
        Status.RUNNING: await start(target("one"), "k", id=f"{prefix}-running", priority=1),
        Status.COMPLETED: await start(target("one"), "k", id=f"{prefix}-completed"),
        Status.FAILED: await start(target("fails"), "k", id=f"{prefix}-failed"),
        Status.TIMED_OUT: await start(target("one"), "k", id=f"{prefix}-timed-out", timeout=1),
        Status.TERMINATED: await start(target("one"), "k", id=f"{prefix}-terminated"),
    }
    for status in (Status.RUNNING, Status.COMPLETED, Status.TERMINATED):
        await held(arena, handles[status].id, "k")
    arena.let_go(f"{prefix}-completed.all")
    assert await handles[Status.COMPLETED].result(timeout=20) == "k"
    await handles[Status.TERMINATED].terminate(reason="enough")
    for status in (Status.FAILED, Status.TIMED_OUT, Status.TERMINATED):
        await failure(handles[status])
    return handles


async def test_L01_each_status(shared: Shared) -> None:
    """`describe` and `list` give each of the five statuses, with facts and times that fit."""
    arena = await shared.arena_of(APP)
    handles = await one_of_each(arena, "l01")
    for status, handle in handles.items():
        run = await handle.describe()
        over = status is not Status.RUNNING
        assert (run.id, run.app, run.status) == (handle.id, "lifecycle", status)
        assert run.flow == ("fails" if status is Status.FAILED else "one")
        assert (run.priority, run.parent_id) == (3 if over else 1, None)
        assert (run.closed_at is not None) is over
        if run.closed_at is not None:
            assert run.closed_at >= run.started_at

        async def listed(status: Status = status, run: FlowDescription = run) -> bool:
            return await arena.client.list(id_prefix="l01-", status=status) == [run]

        await until(listed, f"the list shows {status}")
    arena.let_go("l01-running.all")
    assert await handles[Status.RUNNING].result(timeout=20) == "k"
    for status in (Status.FAILED, Status.TIMED_OUT, Status.TERMINATED):
        assert (await failure(handles[status])).reason is REASONS[status]


REASONS = {
    Status.FAILED: Reason.FAILED,
    Status.TIMED_OUT: Reason.TIMEOUT,
    Status.TERMINATED: Reason.TERMINATED,
}
"""What the waiter reads of a run that came to nothing."""


async def test_L02_a_missing_run_is_not_found(shared: Shared) -> None:
    """Whatever is asked of an id that no run bears: `not-found`."""
    arena = await shared.arena_of(APP)
    handle = arena.client.handle("l02")
    asked = [
        handle.result(timeout=20),
        handle.describe(),
        handle.query("word"),
        handle.signal("word", "hello"),
        handle.terminate(),
    ]
    for call in asked:
        with pytest.raises(FlowError, match="'l02'") as caught:
            await call
        assert caught.value.reason is Reason.NOT_FOUND
    assert await found(arena, id_prefix="l02") == []


@pytest.mark.parametrize("how", ["terminate", "timeout"])
@pytest.mark.parametrize("step", ["work", "blocking", "deaf"])
async def test_L03_an_end_reaches_a_running_step(shared: Shared, step: str, how: str) -> None:
    """A terminate or the deadline cancels a running step within a second, its result is dropped."""
    arena = await shared.arena_of(APP)
    id = f"l03-{step}-{how}"
    timeout = DEADLINE if how == "timeout" else None
    handle = await arena.client.start(target("waits_in"), step, id=id, timeout=timeout)
    await held(arena, id, "k")
    if how == "terminate":
        await handle.terminate(reason="enough")
        ended = time.time()
    else:
        ended = (await handle.describe()).started_at.timestamp() + DEADLINE
    error = await failure(handle)
    assert error.reason == ("terminated" if how == "terminate" else "timeout")
    assert (how == "terminate") is ("enough" in error.message)
    await until(lambda: effects(arena, id, "cancel"), "the step is cancelled")
    (cancel,) = effects(arena, id, "cancel")
    assert cancel.at < ended + 1
    if step == "deaf":
        await until(lambda: effects(arena, id, "end"), "the step has returned nevertheless")
    assert (await failure(handle)).message == error.message
    assert await arena.store.steps(id) == 0
    assert arena.log.begun(id) == {(step, "k"): 1}


async def test_L04_a_terminate_of_a_finished_run_changes_nothing(shared: Shared) -> None:
    """A run that is over stays as it is, however it ended; nothing is raised."""
    arena = await shared.arena_of(APP)
    handles = await one_of_each(arena, "l04")
    running = handles.pop(Status.RUNNING)
    before = [await handle.describe() for handle in handles.values()]
    handles.pop(Status.COMPLETED)
    errors = [await failure(handle) for handle in handles.values()]
    for run in before:
        await arena.client.handle(run.id).terminate(reason="again")
    assert [await arena.client.handle(run.id).describe() for run in before] == before
    assert [await failure(handle) for handle in handles.values()] == errors
    assert await arena.client.handle("l04-completed").result(timeout=20) == "k"
    arena.let_go("l04-running.all")
    assert await running.result(timeout=20) == "k"


async def test_L06_a_deadline_needs_no_worker(arena: Arena) -> None:
    """A run whose app has no worker times out on time, and is never begun afterwards."""
    began = time.time()
    handle = await arena.client.start(target("one"), "k", id="l06", timeout=1)
    assert (await handle.describe()).status is Status.RUNNING
    assert (await failure(handle)).reason is Reason.TIMEOUT
    assert 1 <= time.time() - began < 5
    run = await handle.describe()
    assert run.status is Status.TIMED_OUT
    assert await arena.client.list(status="timed-out") == [run]
    assert await found(arena, status="running") == []
    await arena.worker(APP)
    last = await arena.client.start(target("in_pool"), "k", id="l06-last")
    await held(arena, "l06-last", "k")
    arena.let_go("l06-last.all")
    assert await last.result(timeout=20) == 3
    assert not arena.log.read("l06")


async def test_L07_list_narrows_and_orders(shared: Shared) -> None:
    """Prefix, flow, app, status, since and limit give exactly their runs, the newest first."""
    arena = await shared.arena_of(APP)
    names = ["m", "z", "a", "q", "c", "y"]
    flows = ["one", "other", "one", "fails", "other", "one"]
    for name, flow in zip(names, flows, strict=True):
        await arena.client.start(target(flow), "k", id=f"l07-{name}")
    arena.let_go("l07-a.all")
    await arena.client.start(target("one"), "k", id="l070-not-this")
    await arena.client.start(Target("nobodys", "one"), "k", id="l07-x")
    with pytest.raises(FlowError):
        await arena.client.handle("l07-q").result(timeout=20)
    assert await arena.client.handle("l07-a").result(timeout=20) == "k"
    since = (await arena.client.handle("l07-q").describe()).started_at
    expected: list[tuple[dict[str, Any], str]] = [
        ({}, "xycqazm"),
        ({"app": "lifecycle"}, "ycqazm"),
        ({"app": "nobodys"}, "x"),
        ({"flow": "one"}, "xyam"),
        ({"flow": "none"}, ""),
        ({"status": "running"}, "xyczm"),
        ({"status": "failed"}, "q"),
        ({"status": Status.COMPLETED}, "a"),
        ({"since": since}, "xycq"),
        ({"limit": 2}, "xy"),
        ({"app": "lifecycle", "flow": "one", "since": since, "limit": 1}, "y"),
    ]
    for filter, letters in expected:
        ids = [f"l07-{letter}" for letter in letters]

        async def listed(filter: dict[str, Any] = filter, ids: list[str] = ids) -> bool:
            return await found(arena, id_prefix="l07-", **filter) == ids

        await until(listed, f"{filter} gives {ids}", seconds=10)
    refused: list[dict[str, Any]] = [
        {"since": since.replace(tzinfo=None)},
        {"limit": 0},
        {"limit": -1},
        {"status": "asleep"},
    ]
    for filter in refused:
        (name,) = filter
        with pytest.raises(ValueError, match=name):
            await arena.client.list(id_prefix="l07-", **filter)
    for id in await found(arena, id_prefix="l07", status="running"):
        await arena.client.handle(id).terminate()


async def test_L08_a_running_id_is_refused(shared: Shared) -> None:
    """A start under `reject` of a running id is `already-started` and leaves the run alone."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("one"), "k", id="l08", on_existing="reject")
    assert handle.created
    await held(arena, "l08", "k")
    with pytest.raises(FlowError, match="'l08'") as caught:
        await arena.client.start(target("one"), "other", id="l08", on_existing="reject")
    assert caught.value.reason is Reason.ALREADY_STARTED
    arena.let_go("l08.all")
    assert await handle.result(timeout=20) == "k"
    assert arena.log.begun("l08") == {("work", "k"): 1}


async def test_L09_a_start_attaches(shared: Shared) -> None:
    """A start of a running id gives that run, not `created`; another flow's id is refused."""
    arena = await shared.arena_of(APP)
    first = await arena.client.start(target("one"), "k", id="l09", priority=2)
    await held(arena, "l09", "k")
    before = await first.describe()
    again = [
        await arena.client.start(target("one"), "other", id="l09"),
        await arena.client.start(target("one"), "k", id="l09", on_existing="attach", timeout=0.01),
    ]
    assert (first.created, *(handle.created for handle in again)) == (True, False, False)
    for stranger in (target("other"), Target("nobodys", "one")):
        with pytest.raises(FlowError) as caught:
            await arena.client.start(stranger, "k", id="l09")
        assert caught.value.reason is Reason.ALREADY_STARTED
    assert await first.describe() == before
    arena.let_go("l09.all")
    assert [await handle.result(timeout=20) for handle in (first, *again)] == ["k"] * 3
    assert arena.log.begun("l09") == {("work", "k"): 1}


async def test_L10_a_finished_id_is_not_used_again(shared: Shared) -> None:
    """A start of a finished id gives its outcome, or under `reject` is `already-started`."""
    arena = await shared.arena_of(APP)
    handles = await one_of_each(arena, "l10")
    arena.let_go("l10-running.all")
    assert await handles.pop(Status.RUNNING).result(timeout=20) == "k"
    good = handles.pop(Status.COMPLETED)
    again = await arena.client.start(target("one"), "k", id=good.id)
    assert (again.created, await again.result(timeout=20)) == (False, "k")
    for status, handle in handles.items():
        flow = target("fails" if status is Status.FAILED else "one")
        again = await arena.client.start(flow, "k", id=handle.id)
        assert not again.created
        assert await failure(again) == await failure(handle)
        with pytest.raises(FlowError) as caught:
            await arena.client.start(flow, "k", id=handle.id, on_existing="reject")
        assert caught.value.reason is Reason.ALREADY_STARTED
        assert (await handle.describe()).status is status
    assert len(await found(arena, id_prefix="l10-")) == 5
    assert arena.log.begun(good.id) == {("work", "k"): 1}


async def test_L11_fifty_starts_at_once_are_one_run(shared: Shared) -> None:
    """Of fifty starts of one id at once, one creates the run; all have its result."""
    arena = await shared.arena_of(APP)
    arena.let_go("l11.all")
    handles = await asyncio.gather(
        *(arena.client.start(target("one"), "k", id="l11") for _ in range(50))
    )
    assert [handle.created for handle in handles].count(True) == 1
    results = await asyncio.gather(*(handle.result(timeout=20) for handle in handles))
    assert results == ["k"] * 50
    assert await found(arena, id_prefix="l11") == ["l11"]
    assert arena.log.begun("l11") == {("work", "k"): 1}


async def test_L12_another_process_has_the_result(shared: Shared) -> None:
    """A process that started nothing waits for a run by its id, and reads its error as well."""
    arena = await shared.arena_of(APP)
    await arena.client.start(target("one"), "k", id="l12-good")
    await arena.client.start(target("fails"), "k", id="l12-bad")
    await held(arena, "l12-good", "k")
    reader = ("iworkflow_lab.elsewhere", arena.engine)
    async with (
        program(arena, *reader, "l12-good") as good,
        program(arena, *reader, "l12-bad") as bad,
    ):
        assert json.loads(await bad.line(60)) == {
            "reason": "failed",
            "type": "Refused",
            "details": {"key": "k"},
        }
        await bad.ended()
        arena.let_go("l12-good.all")
        assert json.loads(await good.line(60)) == {"value": "k"}
        await good.ended()
    assert arena.log.begun("l12-good") == {("work", "k"): 1}


@asynccontextmanager
async def program(arena: Arena, *arguments: str, **environment: str) -> AsyncGenerator[Process]:
    """Run a program of the lab for as long as the block runs."""
    process = await Process.run(
        arguments,
        output=arena.folder / f"{arguments[0]}-{arguments[-1]}.log",
        environment={**arena.environment, **environment},
    )
    try:
        yield process
    finally:
        await process.kill()


async def test_L13_a_waiter_that_leaves_touches_nothing(shared: Shared) -> None:
    """A waiter out of time gets `TimeoutError`, one may be cancelled: the run goes on."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("one"), "k", id="l13")
    await held(arena, "l13", "k")
    before = await handle.describe()
    with pytest.raises(TimeoutError, match="'l13'"):
        await handle.result(timeout=0.2)
    waiter = asyncio.create_task(handle.result())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiter), 0.2)
    waiter.cancel()
    await asyncio.wait({waiter})
    assert waiter.cancelled()
    assert await handle.describe() == before
    arena.let_go("l13.all")
    assert await handle.result(timeout=20) == "k"
    assert not effects(arena, "l13", "cancel")
    assert arena.log.begun("l13") == {("work", "k"): 1}


async def test_L14_done_tells_how_a_worker_ended(arena: Arena) -> None:
    """`done` returns once the worker is stopped, and raises what broke it where it broke."""
    first = await arena.worker(APP)
    waiting = asyncio.create_task(first.done())
    handle = await arena.client.start(target("one"), "k", id="l14")
    await held(arena, "l14", "k")
    assert not waiting.done()
    await first.stop()
    await asyncio.wait_for(waiting, 10)
    assert (await handle.describe()).status is Status.RUNNING
    second = await arena.worker(APP)
    await until(lambda: arena.log.begun("l14")["work", "k"] == 2, "the other worker goes on")
    await arena.ruin()
    arena.let_go("l14.all")
    broke = asyncio.create_task(second.done())
    await asyncio.wait({broke}, timeout=40)
    assert broke.done()
    assert broke.exception() is not None


async def test_L15_two_engines_share_a_process(
    arena: Arena, engine_lab: EngineLab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two engines run one app and one id in one process: neither sees the other's, nor its end."""
    folder = tmp_path_factory.mktemp("partner")
    async with partner(engine_lab, arena, folder) as other:
        names = (arena.engine, other.engine)
        places = {**other.environment, **arena.environment}
        async with program(arena, "iworkflow_lab.together", *names, **places) as process:
            told = await process.line(60)
            await process.ended()
            said = process.output.read_text()
    assert told, said
    assert json.loads(told) == {
        "results": [[f"{name} began", f"{name} ended"] for name in (*names, names[1])],
        "still_running": ["together"],
        "threads": [],
    }
    assert said == ""
    keys = [f"{name} {what}" for name in names for what in ("began", "ended")]
    assert arena.log.ended("together") == {("quick", key): 1 for key in keys}


@asynccontextmanager
async def partner(engine_lab: EngineLab, arena: Arena, folder: Path) -> AsyncGenerator[Arena]:
    """Give an arena of another engine: the last of those that are not this one's."""
    for lab in reversed(list(ENGINES.values())):
        if lab is not engine_lab:
            with lab.server():
                async with lab.arena(folder) as other:
                    if other.engine != arena.engine:
                        yield other
                        return


async def test_L16_another_core_is_refused(arena: Arena, tmp_path: Path) -> None:
    """A worker next to a core of another version does not start, and names what to do."""
    core = tmp_path / "site" / "iworkflow_core-9.9.9.dist-info"
    core.mkdir(parents=True)
    (core / "METADATA").write_text("Metadata-Version: 2.1\nName: iworkflow-core\nVersion: 9.9.9\n")
    path = os.pathsep.join(filter(None, [str(core.parent), os.environ.get("PYTHONPATH")]))
    worker = ("iworkflow_lab.worker", arena.engine, APP)
    async with program(arena, *worker, PYTHONPATH=path) as process:
        assert await process.line(60) == ""
        with pytest.raises(WorkerDied) as refused:
            await process.ended()
    said = str(refused.value)
    assert f"iworkflow-{arena.engine} {installed('iworkflow-core')}" in said
    assert "does not work with iworkflow-core 9.9.9" in said
    assert f'pip install "iworkflow-{arena.engine}==9.9.9"' in said


@pytest.mark.parametrize("how", ["returns", "fails", "goes on"])
async def test_L17_a_flow_cannot_outlive_its_deadline(shared: Shared, how: str) -> None:
    """A flow that catches everything is timed out at its deadline, and runs nothing after it."""
    arena = await shared.arena_of(APP)
    id = f"l17-{how}"
    handle = await arena.client.start(target("stubborn"), how, id=id, timeout=DEADLINE)
    await held(arena, id, "k")
    error = await failure(handle)
    assert error.reason is Reason.TIMEOUT
    run = await handle.describe()
    assert run.status is Status.TIMED_OUT
    await until(lambda: effects(arena, id, "cancel"), "the step is cancelled")
    arena.let_go(f"{id}-next.all")
    following = await arena.client.start(target("one"), "k", id=f"{id}-next")
    assert await following.result(timeout=20) == "k"
    assert await handle.describe() == run
    assert await failure(handle) == error
    assert arena.log.begun(id) == {("work", "k"): 1}
    assert await arena.store.steps(id) == 0


async def test_L18_a_start_gives_its_priority(shared: Shared) -> None:
    """A run has the priority of its start, else 3, and its steps wait in that order."""
    arena = await shared.arena_of(APP)
    first = await arena.client.start(target("in_pool"), "first", id="l18-first")
    await held(arena, "l18-first", "first")
    priorities = [5, 4, None, 1, 2]
    ids = [f"l18-{place}" for place in range(len(priorities))]
    start = arena.client.start
    handles = [
        await start(target("in_pool"), id, id=id, priority=priority)
        for id, priority in zip(ids, priorities, strict=True)
    ]
    for id in ids:
        await made(arena, id, "asked")
    # A step that was asked for has come to its pool when a whole run has passed since.
    await failure(await start(target("fails"), "later", id="l18-later"))
    got = [(await handle.describe()).priority for handle in handles]
    assert got == [5, 4, 3, 1, 2]
    for id in [*ids, "l18-first"]:
        arena.let_go(f"{id}.all")
    assert [await handle.result(timeout=20) for handle in handles] == got
    assert await first.result(timeout=20) == 3
    begun = [e.run for e in effects_of(arena, "ranked") if e.run in ids]
    assert [got[ids.index(id)] for id in begun] == sorted(got)


async def made(arena: Arena, run: str, key: str) -> None:
    """Wait until a step of the key has ended."""
    await until(lambda: ("quick", key) in arena.log.ended(run), f"{run} made {key}")


def effects_of(arena: Arena, step: str) -> list[Effect]:
    """Return the begins of a step in all runs."""
    return [e for e in arena.log.read() if (e.what, e.step) == ("begin", step)]
