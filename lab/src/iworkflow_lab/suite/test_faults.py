"""Faults: workers that die, freeze, stop or never come back, and servers that restart."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from iworkflow.core import FlowDescription, Handle, Target
from iworkflow_lab.apps.faults import STOP, WAIT
from iworkflow_lab.barrier import kill
from iworkflow_lab.effects import Effect
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.waits import ended, held
from iworkflow_lab.until import until

APP = "iworkflow_lab.apps.faults:app"
CHILD = "iworkflow_lab.apps.faults:child"
DETERMINISM = "iworkflow_lab.apps.determinism:app"
FIRST, SECOND = ("token", "first"), ("token", "second")


def target(flow: str) -> Target[Any]:
    """Name a flow of the faults app."""
    return Target("faults", flow)


def lines(arena: Arena, run: str, what: str, key: str) -> list[Effect]:
    """Return the effects of one sort and key, oldest first."""
    return [e for e in arena.log.read(run) if e.what == what and e.key == key]


def calls(arena: Arena, run: str, *keys: str) -> list[str]:
    """Return, for each key, the execution that ended last."""
    return [lines(arena, run, "end", key)[-1].call for key in keys]


async def seen(arena: Arena, run: str, what: str, key: str, *, times: int = 1) -> None:
    """Wait until so many effects of one sort and key are there."""
    await until(
        lambda: len(lines(arena, run, what, key)) >= times, f"{run}: {what} {key}", every=0.005
    )


async def recorded(arena: Arena, run: str, steps: int) -> None:
    """Wait until the store holds so many outcomes of steps."""

    async def there() -> bool:
        return await arena.store.steps(run) == steps

    await until(there, f"{run} has {steps} steps recorded", every=0.005)


async def past(moment: float) -> None:
    """Wait until the clock has passed a moment."""
    await until(lambda: time.time() > moment, "time goes on", seconds=60)


async def in_second(arena: Arena, run: str, flow: str = "pair") -> Handle[Any]:
    """Start a run and bring it into its second step, the first one recorded."""
    handle = await arena.client.start(target(flow), id=run)
    await held(arena, run, "first")
    await ended(arena, run, "first")
    await held(arena, run, "second")
    return handle


async def test_F01_killed_before_the_effect(arena: Arena) -> None:
    """A step that is killed before its effect has it once, in the next execution."""
    worker = await arena.worker(APP)
    handle = await in_second(arena, "f01")
    moment = await kill(arena, worker, "f01")
    assert (moment.in_flight, moment.unrecorded) == (1, 0)
    await arena.worker(APP)
    await held(arena, "f01", "second")
    assert arena.log.ended("f01") == {FIRST: 1}
    arena.let_go("f01.second")
    assert await handle.result(timeout=20) == calls(arena, "f01", "first", "second")
    assert arena.log.ended("f01") == {FIRST: 1, SECOND: 1}
    assert arena.log.begun("f01") == {FIRST: 1, SECOND: 2}


async def test_F02_killed_between_effect_and_record(arena: Arena) -> None:
    """A step that is killed after its effect runs once more; the flow sees one result."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("pair"), "tells", id="f02")
    await seen(arena, "f02", "end", "first")
    moment = await kill(arena, worker, "f02")
    assert (moment.recorded, moment.unrecorded) == (0, 1)
    await arena.worker(APP)
    await seen(arena, "f02", "end", "first", times=2)
    arena.let_go("f02.all")
    assert await handle.result(timeout=20) == calls(arena, "f02", "first", "second")
    assert arena.log.ended("f02") == {("tells", "first"): 2, ("tells", "second"): 1}
    assert await arena.store.steps("f02") == 2


async def test_F02_killed_while_the_record_is_made(arena: Arena) -> None:
    """Killed at the moment of its effect: recorded or not, the last execution's result counts."""
    for n in range(3):
        worker, run = await arena.worker(APP), f"f02-{n}"
        arena.let_go(f"{run}.all")
        handle = await arena.client.start(target("pair"), "tells", id=run)
        await seen(arena, run, "end", "first")
        await worker.kill()
        worker = await arena.worker(APP)
        assert await handle.result(timeout=20) == calls(arena, run, "first", "second")
        assert max(arena.log.ended(run).values()) <= 2
        await worker.kill()


async def test_F03_killed_after_the_record(arena: Arena) -> None:
    """A step whose outcome is recorded does not run again, though the flow never heard of it."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("pair"), id="f03")
    await held(arena, "f03", "first")
    arena.let_go("f03.first")
    await recorded(arena, "f03", 1)
    await kill(arena, worker, "f03")
    await arena.worker(APP)
    await held(arena, "f03", "second")
    arena.let_go("f03.second")
    assert await handle.result(timeout=20) == calls(arena, "f03", "first", "second")
    assert arena.log.ended("f03") == {FIRST: 1, SECOND: 1}
    assert arena.log.begun("f03")[FIRST] == 1


async def listening(arena: Arena, run: str, *, beside: bool = False) -> Handle[Any]:
    """Start a run that collects messages; it has had one and waits for the next."""
    handle = await arena.client.start(target("collects"), beside, id=run)
    await handle.signal("mail", "a")
    await seen(arena, run, "end", "got a")
    await recorded(arena, run, 1)
    return handle


def got(*messages: str) -> dict[tuple[str, str], int]:
    """Return the effects of messages that were each received once."""
    return {("quick", f"got {message}"): 1 for message in messages}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-a-step"])
async def test_F04_killed_while_receiving(arena: Arena, beside: bool) -> None:
    """Killed in `recv`: what is sent before, meanwhile and later is each received once."""
    worker = await arena.worker(APP)
    handle = await listening(arena, "f04", beside=beside)
    await kill(arena, worker, "f04")
    await handle.signal("mail", "b")
    await arena.worker(APP)
    await seen(arena, "f04", "end", "got b")
    await handle.signal("mail", "c")
    await handle.signal("mail", STOP)
    arena.let_go("f04.all")
    assert await handle.result(timeout=20) == ["a", "b", "c"]
    effects = got("a", "b", "c") | ({("token", "beside"): 1} if beside else {})
    assert arena.log.ended("f04") == effects


async def one_child(arena: Arena, run: str) -> FlowDescription:
    """Return the run's child, the only run whose id begins like it."""
    [child] = await arena.client.list(id_prefix=f"{run}-")
    assert (child.id, child.parent_id) == (f"{run}-child", run)
    return child


async def test_F05_parent_killed_with_its_child(arena: Arena) -> None:
    """Parent and child, killed with the worker of both: one child, which goes on where it was."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("parent"), "faults", id="f05")
    await held(arena, "f05-child", "first")
    await ended(arena, "f05-child", "first")
    await held(arena, "f05-child", "second")
    await kill(arena, worker, "f05-child")
    await arena.worker(APP)
    await held(arena, "f05-child", "second")
    arena.let_go("f05-child.second")
    theirs = calls(arena, "f05-child", "first")
    result = await handle.result(timeout=20)
    assert result == [*calls(arena, "f05", "before"), *theirs, *calls(arena, "f05-child", "second")]
    assert arena.log.ended("f05") == {("quick", "before"): 1}
    assert arena.log.ended("f05-child") == {FIRST: 1, SECOND: 1}
    assert (await one_child(arena, "f05")).status == "completed"


async def test_F05_parent_killed_its_child_goes_on(arena: Arena) -> None:
    """A child in another app ends while its parent's worker is dead: the parent has the result."""
    worker = await arena.worker(APP)
    await arena.worker(CHILD)
    handle = await arena.client.start(target("parent"), "faults-child", id="f05")
    await held(arena, "f05-child", "first")
    await kill(arena, worker, "f05")
    assert len(arena.log.in_flight("f05-child")) == 1
    arena.let_go("f05-child.all")
    theirs = await arena.client.handle("f05-child").result(timeout=20)
    await arena.worker(APP)
    assert await handle.result(timeout=20) == [*calls(arena, "f05", "before"), *theirs]
    assert arena.log.begun("f05") == {("quick", "before"): 1}
    assert arena.log.begun("f05-child") == {FIRST: 1, SECOND: 1}
    assert (await one_child(arena, "f05")).app == "faults-child"


async def test_F06_the_childs_worker_is_killed(arena: Arena) -> None:
    """The worker of a child dies: the parent waits, the child goes on under the next worker."""
    await arena.worker(APP)
    worker = await arena.worker(CHILD)
    handle = await arena.client.start(target("parent"), "faults-child", id="f06")
    await held(arena, "f06-child", "first")
    await ended(arena, "f06-child", "first")
    await held(arena, "f06-child", "second")
    await kill(arena, worker, "f06-child")
    assert (await handle.describe()).status == "running"
    await arena.worker(CHILD)
    await held(arena, "f06-child", "second")
    arena.let_go("f06-child.second")
    mine, *theirs = await handle.result(timeout=20)
    assert [mine] == calls(arena, "f06", "before")
    assert theirs == calls(arena, "f06-child", "first", "second")
    assert arena.log.begun("f06") == {("quick", "before"): 1}
    assert arena.log.ended("f06-child") == {FIRST: 1, SECOND: 1}
    assert (await one_child(arena, "f06")).status == "completed"


async def test_F07_killed_between_attempts(arena: Arena) -> None:
    """Killed as it waits for its next attempt: the count goes on, only the rest is waited for."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("gives_up"), "fails", 3, id="f07")

    async def waits() -> bool:
        return [state.made for state in await arena.store.attempts("f07")] == [2]

    await until(waits, "the second attempt is recorded")
    await kill(arena, worker, "f07")
    [failed] = lines(arena, "f07", "end", "try 2")
    await past(failed.at + WAIT / 2)
    await arena.worker(APP)
    back = time.time()
    assert await handle.result(timeout=20) == {"message": "attempt 3", "exhausted": True}
    assert arena.log.ended("f07") == {("fails", f"try {n}"): 1 for n in (1, 2, 3)}
    [last] = lines(arena, "f07", "begin", "try 3")
    assert failed.at + WAIT <= last.at < back + WAIT


async def test_F08_attempt_numbers_go_on(arena: Arena) -> None:
    """A killed attempt did not fail: its number is given again, the failed ones stay counted."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("gives_up"), "struggles", 3, id="f08")
    for _ in range(2):
        await held(arena, "f08", "try 2")
        await kill(arena, worker, "f08")
        worker = await arena.worker(APP)
    await held(arena, "f08", "try 2")
    arena.let_go("f08.all")
    assert await handle.result(timeout=20) == {"message": "attempt 3", "exhausted": True}
    begun = {("struggles", "try 1"): 1, ("struggles", "try 2"): 3, ("struggles", "try 3"): 1}
    assert arena.log.begun("f08") == begun
    assert arena.log.ended("f08") == dict.fromkeys(begun, 1)


@pytest.mark.parametrize("fresh", [False, True], ids=["silent", "beating-on"])
async def test_F09_heartbeats_are_kept(arena: Arena, fresh: bool) -> None:
    """What an attempt reported is read after a KILL, and after one more, beaten again or not."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("beating"), fresh, id="f09")
    reads = [None, 7, 8 if fresh else 7]
    for read in reads[:-1]:
        await held(arena, "f09", f"beat read {read}")
        reported = read + 1 if fresh and read else 7

        async def kept(value: int = reported) -> bool:
            return [state.heartbeat for state in await arena.store.attempts("f09")] == [value]

        await until(kept, f"the report of {reported} is durable")
        await kill(arena, worker, "f09")
        worker = await arena.worker(APP)
    await held(arena, "f09", f"beat read {reads[-1]}")
    for read in reads:
        arena.let_go(f"f09.beat read {read}")
    assert await handle.result(timeout=20) == str(reads[-1])
    assert [e.key for e in arena.log.read("f09") if e.what == "begin"] == [
        f"beat read {read}" for read in reads
    ]
    assert arena.log.ended("f09") == {("beats", f"beat read {reads[-1]}"): 1}


async def test_F10_killed_while_branches_run(arena: Arena) -> None:
    """Of branches side by side, no recorded step runs again, be it a result or a failure."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("branches"), id="f10")
    await held(arena, "f10", "a0", "b0", "c0")
    for key, following in {"c0": "c1", "a0": "a1", "a1": "a2"}.items():
        await ended(arena, "f10", key)
        await held(arena, "f10", following)
    done = calls(arena, "f10", "a0", "a1", "c0")
    moment = await kill(arena, worker, "f10")
    assert (moment.in_flight, moment.unrecorded) == (3, 0)
    await arena.worker(APP)
    await held(arena, "f10", "a2", "b0", "c1")
    arena.let_go("f10.all")
    a, b, c = await handle.result(timeout=20)
    assert [*a[:2], c[0]] == done
    assert a == calls(arena, "f10", "a0", "a1", "a2")
    assert b == calls(arena, "f10", "b0", "b1", "b2")
    assert c == calls(arena, "f10", "c0", "c1")
    assert set(arena.log.ended("f10").values()) == {1}
    twice = {key for (_, key), times in arena.log.begun("f10").items() if times == 2}
    assert twice == {"a2", "b0", "c1"}


async def test_F11_a_frozen_worker_records_nothing(arena: Arena) -> None:
    """Frozen, taken over and awake again: what it does now changes no step, message or sleep."""
    frozen = await arena.worker(APP)
    stepping = await in_second(arena, "f11")
    mail = await listening(arena, "f11-mail")
    asleep = await arena.client.start(target("sleeps"), 4.0, id="f11-sleep")
    await recorded(arena, "f11-sleep", 1)
    [stale] = arena.log.in_flight("f11")
    await frozen.freeze()
    await arena.worker(APP)
    await until(lambda: len(arena.log.in_flight("f11")) == 2, "another worker takes the step")
    await mail.signal("mail", "b")
    await seen(arena, "f11-mail", "end", "got b")
    arena.let_go(stale.call)
    await frozen.thaw()
    await until(lambda: stale not in arena.log.in_flight("f11"), "the stale step ends")
    await asleep.result(timeout=20)
    probe = await arena.client.start(target("sleeps"), 0.1, id="f11-probe")
    await probe.result(timeout=20)
    assert await arena.store.steps("f11") == 1
    [valid] = arena.log.in_flight("f11")
    arena.let_go("f11.second")
    assert await stepping.result(timeout=20) == [*calls(arena, "f11", "first"), valid.call]
    await mail.signal("mail", STOP)
    assert await mail.result(timeout=20) == ["a", "b"]
    assert arena.log.ended("f11-mail") == got("a", "b")
    assert arena.log.ended("f11-sleep") == {("quick", "asleep"): 1, ("quick", "awake"): 1}
    assert arena.log.begun("f11") == {FIRST: 1, SECOND: 2}
    assert await arena.store.steps("f11") == 2


async def test_F12_the_other_worker_goes_on(arena: Arena) -> None:
    """One of two workers is killed and never returns: the other has its runs within 20 s."""
    for _ in range(2):
        await arena.worker(DETERMINISM, silence=None)
    keys = ["first", "second"]
    runs = [f"f12-{n}" for n in range(4)]
    bystander: Target[list[str]] = Target("determinism", "bystander")
    handles = [await arena.client.start(bystander, keys, id=run) for run in runs]
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


async def test_F13_a_restart_is_enough(arena: Arena) -> None:
    """A worker that starts takes up what is there; no client has to ask for anything."""
    worker = await arena.worker(APP)
    stepping = await in_second(arena, "f13")
    asleep = await arena.client.start(target("sleeps"), 1.0, id="f13-sleep")
    expecting = await arena.client.start(target("expects"), 1.0, id="f13-expects")
    await recorded(arena, "f13-sleep", 1)
    await kill(arena, worker, "f13")
    young = await arena.client.start(target("pair"), id="f13-young")
    for run in ("f13", "f13-young"):
        arena.let_go(f"{run}.all")
    await arena.worker(APP)
    for run, key in {
        "f13": "second",
        "f13-young": "second",
        "f13-sleep": "awake",
        "f13-expects": "expected",
    }.items():
        await seen(arena, run, "end", key)
    for handle in (stepping, young):
        assert await handle.result(timeout=20) == calls(arena, handle.id, "first", "second")
        assert arena.log.ended(handle.id) == {FIRST: 1, SECOND: 1}
    assert await asleep.result(timeout=20) == calls(arena, "f13-sleep", "awake")[0]
    assert arena.log.ended("f13-sleep") == {("quick", "asleep"): 1, ("quick", "awake"): 1}
    assert await expecting.result(timeout=20) is None
    assert arena.log.ended("f13-expects") == {("quick", "expected"): 1}


async def test_F14_a_second_worker_boots(arena: Arena) -> None:
    """A worker that starts while another one runs a step leaves it alone."""
    await arena.worker(APP, silence=1.0)
    handle = await in_second(arena, "f14")
    mail = await listening(arena, "f14-mail")
    await arena.worker(APP, silence=1.0)
    await past(time.time() + 3.0)
    assert arena.log.begun("f14") == {FIRST: 1, SECOND: 1}
    arena.let_go("f14.second")
    assert await handle.result(timeout=20) == calls(arena, "f14", "first", "second")
    await mail.signal("mail", STOP)
    assert await mail.result(timeout=20) == ["a"]
    assert arena.log.begun("f14") == arena.log.ended("f14") == {FIRST: 1, SECOND: 1}
    assert arena.log.begun("f14-mail") == got("a")


async def test_F15_the_server_restarts(arena_alone: Arena) -> None:
    """A server that restarts costs sleepers and receivers nothing; their worker stays as it is."""
    arena, seconds = arena_alone, 6.0
    await arena.worker(APP, silence=None)
    mail = await listening(arena, "f15-mail")
    beside = await listening(arena, "f15-beside", beside=True)
    begun = time.time()
    asleep = await arena.client.start(target("sleeps"), seconds, id="f15-sleep")
    await recorded(arena, "f15-sleep", 1)
    waiting = asyncio.ensure_future(asleep.result(timeout=60))
    await arena.restart_server()
    for handle in (mail, beside):
        await handle.signal("mail", "b")
        await seen(arena, handle.id, "end", "got b")
        await handle.signal("mail", STOP)
    arena.let_go("f15-beside.all")
    for handle in (mail, beside):
        assert await handle.result(timeout=20) == ["a", "b"]
    assert await waiting == calls(arena, "f15-sleep", "awake")[0]
    assert lines(arena, "f15-sleep", "begin", "awake")[0].at >= begun + seconds
    assert arena.log.begun("f15-mail") == got("a", "b")
    assert arena.log.begun("f15-beside") == got("a", "b") | {("token", "beside"): 1}
    assert arena.log.begun("f15-sleep") == {("quick", "asleep"): 1, ("quick", "awake"): 1}
    young = await arena.client.start(target("sleeps"), 0.1, id="f15-young")
    assert await young.result(timeout=20) == calls(arena, "f15-young", "awake")[0]


async def test_F20_told_to_stop(arena: Arena) -> None:
    """On SIGTERM the running step ends and is recorded, and nothing new begins."""
    worker = await arena.worker(APP, grace=20)
    running = await arena.client.start(target("pooled"), id="f20")
    await held(arena, "f20", "first")
    queued = await arena.client.start(target("pooled"), id="f20-queued")
    sleeper = await arena.client.start(target("sleeps"), 1.0, id="f20-sleep")
    await recorded(arena, "f20-sleep", 1)
    await worker.leave()
    told = time.time()
    young = await arena.client.start(target("pair"), id="f20-young")
    await past(told + 1.5)
    arena.let_go("f20.first")
    await worker.stop()
    assert not [e for e in arena.log.read() if e.what == "begin" and e.at > told]
    assert arena.log.ended("f20") == {FIRST: 1}
    assert await arena.store.steps("f20") == 1
    await arena.worker(APP)
    for handle in (running, queued, young):
        arena.let_go(f"{handle.id}.all")
    for handle in (running, queued, young):
        assert await handle.result(timeout=20) == calls(arena, handle.id, "first", "second")
        assert arena.log.begun(handle.id) == arena.log.ended(handle.id) == {FIRST: 1, SECOND: 1}
    assert await sleeper.result(timeout=20) == calls(arena, "f20-sleep", "awake")[0]
    assert arena.log.begun("f20-sleep") == {("quick", "asleep"): 1, ("quick", "awake"): 1}


async def test_F21_out_of_grace(arena: Arena) -> None:
    """What outlives the grace is cancelled, and all runs go on at once with another worker."""
    grace = 1.0
    worker = await arena.worker(APP, grace=grace, silence=None)
    stepping = await in_second(arena, "f21")
    mail = await listening(arena, "f21-mail")
    await arena.worker(APP, silence=None)
    told = time.time()
    await worker.leave()
    await worker.stop()
    gone = time.time()
    await held(arena, "f21", "second")
    [cancelled] = lines(arena, "f21", "cancel", "second")
    again = lines(arena, "f21", "begin", "second")[-1]
    assert cancelled.at >= told + grace
    assert again.at < gone + 5
    await mail.signal("mail", "b")
    await seen(arena, "f21-mail", "end", "got b")
    assert lines(arena, "f21-mail", "end", "got b")[0].at < gone + 10
    arena.let_go("f21.second")
    assert await stepping.result(timeout=20) == [*calls(arena, "f21", "first"), again.call]
    await mail.signal("mail", STOP)
    assert await mail.result(timeout=20) == ["a", "b"]
    assert arena.log.begun("f21") == {FIRST: 1, SECOND: 2}
    assert arena.log.ended("f21") == {FIRST: 1, SECOND: 1}
    assert arena.log.begun("f21-mail") == got("a", "b")
