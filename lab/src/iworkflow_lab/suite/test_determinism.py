"""Concurrency and determinism: branches of a flow meet, a worker dies, nothing moves."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from iworkflow.core import Handle, Target
from iworkflow_lab.barrier import Conductor, Moment, kill
from iworkflow_lab.effects import Effect
from iworkflow_lab.engines.base import Arena, Worker
from iworkflow_lab.suite.waits import ended, held, shows
from iworkflow_lab.until import until

APP = "iworkflow_lab.apps.determinism:app"
CHANGED = "iworkflow_lab.apps.changed:app"


def target(flow: str) -> Target[object]:
    """Name a flow of the determinism app."""
    return Target("determinism", flow)


async def test_D01_gather_gives_results_by_index(arena: Arena) -> None:
    """Steps that complete in reverse order stand in `gather`'s result in the order asked."""
    await arena.worker(APP)
    handle = await arena.client.start(target("indexed"), ["a", "b", "c"], id="d01")
    await held(arena, "d01", "a", "b", "c")
    for key in ("c", "b", "a"):
        await ended(arena, "d01", key)
    assert await handle.result(timeout=20) == ["a", "b", "c"]
    assert arena.log.ended("d01") == {("work", key): 1 for key in ("a", "b", "c")}


async def test_D02_one_fails_and_the_others_go_on(arena: Arena) -> None:
    """The first failure leaves `gather` at once; its siblings run on and are not run again."""
    await arena.worker(APP)
    handle = await arena.client.start(target("one_fails"), id="d02")
    await held(arena, "d02", "a", "b", "c")
    arena.let_go("d02.b")
    await shows(handle, "caught", "Refused")
    arena.let_go("d02.a")
    arena.let_go("d02.c")
    assert await handle.result(timeout=20) == {
        "type": "Refused",
        "details": {"key": "b"},
        "unfinished": [True, False, True],
        "kept": ["a", "FlowError", "c"],
    }
    assert arena.log.begun("d02") == {("work", "a"): 1, ("refuse", "b"): 1, ("work", "c"): 1}


@pytest.mark.parametrize("width", [100, 1000])
async def test_D03_fan_out(arena: Arena, width: int) -> None:
    """So many steps at once: each runs once, each result stands at its index."""
    await arena.worker(APP)
    handle = await arena.client.start(target("fan_out"), width, id="d03")
    assert await handle.result(timeout=100) == [str(n) for n in range(width)]
    assert arena.log.ended("d03") == {("quick", str(n)): 1 for n in range(width)}


async def test_D04_first_completed_keeps_its_order(arena: Arena) -> None:
    """What completed first before a KILL completes first in the replay, too."""
    worker = await arena.worker(APP)
    keys = ["a", "b", "c", "d"]
    handle = await arena.client.start(target("first_completed"), keys, id="d04")
    await held(arena, "d04", *keys)
    await ended(arena, "d04", "c")
    await shows(handle, "order", ["c"])
    await ended(arena, "d04", "a")
    await shows(handle, "order", ["c", "a"])
    moment = await kill(arena, worker, "d04")
    assert moment.in_flight == 2
    await arena.worker(APP)
    await held(arena, "d04", "b", "d")
    await ended(arena, "d04", "d")
    await shows(handle, "order", ["c", "a", "d"])
    await ended(arena, "d04", "b")
    assert await handle.result(timeout=20) == ["c", "a", "d", "b"]
    assert arena.log.ended("d04") == {("work", key): 1 for key in keys}


async def test_D04_a_vain_wait_keeps_its_place(arena: Arena) -> None:
    """A wait that timed out before steps ended is over before them in the replay, too."""
    worker = await arena.worker(APP)
    keys = ["a", "b", "c", "d"]
    handle = await arena.client.start(target("first_or_nobody"), keys, id="d04")
    await shows(handle, "order", ["nobody"])
    await held(arena, "d04", *keys)
    await ended(arena, "d04", "c")
    await shows(handle, "order", ["nobody", "c"])
    moment = await kill(arena, worker, "d04")
    assert moment.in_flight == 3
    await arena.worker(APP)
    order = ["nobody", "c"]
    for key in ("a", "d", "b"):
        await held(arena, "d04", key)
        await ended(arena, "d04", key)
        order.append(key)
        await shows(handle, "order", order)
    told = [f"{n} {key}" for n, key in enumerate(order)]
    assert await handle.result(timeout=20) == told
    steps = [("work", key) for key in keys] + [("quick", line) for line in told]
    assert arena.log.ended("d04") == dict.fromkeys(steps, 1)


async def test_D05_a_late_result_is_ignored(arena: Arena) -> None:
    """A step that ends after its timeout in the flow changes nothing, nor does a KILL."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("too_late"), id="d05")
    await shows(handle, "trace", ["timeout"])
    await held(arena, "d05", "after")
    await ended(arena, "d05", "deaf")
    await kill(arena, worker, "d05")
    await arena.worker(APP)
    await held(arena, "d05", "after")
    arena.let_go("d05.after")
    assert await handle.result(timeout=20) == ["timeout", "after"]
    assert arena.log.begun("d05")["deaf", "deaf"] == 1
    assert arena.log.ended("d05") == {("deaf", "deaf"): 1, ("work", "after"): 1}


async def test_D10_chains_keep_their_results(arena: Arena) -> None:
    """Chains of one step, killed at twelve moments: no result swapped, lost or made twice."""
    worker = await arena.worker(APP)
    for ended_before in range(12):
        run = f"d10-{ended_before}"
        handle = await arena.client.start(target("chains"), WIDTH, LENGTH, id=run)
        await Conductor(arena, run, seed=ended_before).play(ended=ended_before)
        before = [await links_shown(handle, n) for n in range(WIDTH)]
        met = await counted(arena, worker, run)
        worker = await arena.worker(APP)
        arena.let_go(f"{run}.all")
        result = await handle.result(result_type=list[Links], timeout=30)
        assert [links[: len(part)] for links, part in zip(result, before, strict=True)] == before
        check_chains(arena, run, result)
        assert arena.log.ended(run).total() == WIDTH * LENGTH + met.unrecorded


WIDTH, LENGTH = 3, 5
Links = list[str]


async def links_shown(handle: Handle[object], chain: int) -> Links:
    """Return what a chain has told of itself so far."""
    return await handle.query(f"chain-{chain}", result_type=Links) or []


def check_chains(arena: Arena, run: str, chains: list[Links]) -> None:
    """Check that each token came out of an execution that was given the token before it."""
    given = {e.call: e.key for e in arena.log.read(run) if e.what == "end"}
    assert [(links[0], len(links)) for links in chains] == [("seed", LENGTH + 1)] * WIDTH
    pairs = [pair for links in chains for pair in pairwise(links)]
    wrong = [(key, token) for key, token in pairs if given.get(token) != key]
    assert not wrong, f"swapped or invented results: {wrong}"
    assert len({token for _, token in pairs}) == WIDTH * LENGTH


def repeats(arena: Arena, run: str) -> int:
    """Count the executions that ended beyond the first of a step and key."""
    return sum(n - 1 for n in arena.log.ended(run).values())


async def counted(arena: Arena, worker: Worker, run: str) -> Moment:
    """Kill the worker at a moment that counts."""
    moment = await kill(arena, worker, run)
    assert moment.counts, moment
    return moment


MOMENTS = [2, 3, 4, 6, 8, 9, 12, 14, 16, 18, 20, 22, 23]
"""How many steps have ended when the worker is killed: some in each part of the flow."""


async def test_D11_crossing_branches_keep_their_order(arena: Arena) -> None:
    """TaskGroup, Event, Queue, `wait`, an abort: killed at 13 moments, the same way again."""
    worker = await arena.worker(APP)
    for ended_before in MOMENTS:
        run = f"d11-{ended_before}"
        handle = await arena.client.start(target("crossing"), id=run)
        await Conductor(arena, run, seed=ended_before).play(ended=ended_before)
        before = await handle.query("trace", result_type=list[str]) or []
        met = await counted(arena, worker, run)
        worker = await arena.worker(APP)
        arena.let_go(f"{run}.all")
        trace = await handle.result(result_type=list[str], timeout=30)
        assert trace[: len(before)] == before
        assert repeats(arena, run) <= met.unrecorded
        check_crossing(arena, run, trace)


def check_crossing(arena: Arena, run: str, trace: list[str]) -> None:
    """Check that the trace is one that the flow can take, and that the effects bear it out."""
    executed: dict[str, Effect] = {e.call: e for e in arena.log.read(run) if e.what == "end"}

    def told(verb: str, place: int) -> list[list[str]]:
        return [line.split() for line in trace if line.split()[place] == verb]

    taken = [(who, item) for who, _, item in told("took", 1)]
    assert sorted(item for _, item in taken) == [f"made-{n}" for n in range(6)]
    had = [executed[token].key for _, _, token in told("had", 1)]
    assert sorted(had) == sorted(f"{who}/{item}" for who, item in taken)
    won = [token for _, token in told("won", 0)]
    rounds = [*(f"round-{n}" for n in range(5)), "round-5 nobody"]
    assert sorted(executed[token].key for token in won) == rounds
    prizes = [executed[token].key for _, token in told("prize", 0)]
    assert sorted(prizes) == sorted(f"prize/{token}" for token in won)
    left = [executed[token].key for _, _, token in told("left", 1)]
    assert sorted(left) == ["leaving/p", "leaving/q", "leaving/r"]
    assert trace[-1] == "aborted by 1"


async def test_D11_sets_keep_their_order(arena: Arena) -> None:
    """What iterates over `wait`'s set, and the abort of a group, goes the same way again."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("sets"), MANY, id="d11")
    before: list[str] = []
    for key in ("between", "after"):
        await held(arena, "d11", key)
        before = await handle.query("trace", result_type=list[str]) or []
        await kill(arena, worker, "d11")
        worker = await arena.worker(APP)
        await held(arena, "d11", key)
        arena.let_go(f"d11.{key}")
    assert await handle.result(timeout=20) == before
    told = [f"{verb} {n}" for verb in ("done", "left") for n in range(MANY)]
    assert sorted(before) == sorted(told)
    quick = [("quick", key) for key in [*map(str, range(MANY)), *told]]
    once = [*quick, ("work", "between"), ("work", "after")]
    assert arena.log.ended("d11") == dict.fromkeys(once, 1)


MANY = 40
"""So many tasks that two sets of them hardly ever iterate alike by chance."""


async def beside(arena: Arena) -> tuple[Worker, Handle[object], Handle[object]]:
    """Start a run full of clean-ups and a bystander; both wait in a step."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(target("leftovers"), id="d13")
    other = await arena.client.start(target("bystander"), KEYS, id="d13-other")
    await held(arena, "d13", "inside")
    await held(arena, "d13-other", KEYS[0])
    return worker, handle, other


KEYS = [f"step-{n}" for n in range(4)]


async def undisturbed(arena: Arena, other: Handle[object]) -> None:
    """Let the bystander finish; until then no clean-up has run a step, in whatever run."""
    arena.let_go("d13-other.all")
    assert await other.result(timeout=30) == KEYS
    assert left(arena) == {}
    assert set(arena.log.ended("d13-other")) == {("work", key) for key in KEYS}


async def cleaned_up(arena: Arena, handle: Handle[object]) -> None:
    """Let the run come to its own end; its clean-ups run once, then."""
    await held(arena, "d13", "inside")
    arena.let_go("d13.inside")
    assert await handle.result(timeout=30) == "left"
    assert left(arena) == {f"{what} left": 1 for what in ("flow", "task", "generator")}


def left(arena: Arena) -> Counter[str]:
    """Count the steps of clean-ups that were begun, whatever run they claim to be of."""
    return Counter(e.key for e in arena.log.read() if e.what == "begin" and e.key.endswith("left"))


async def test_D13_a_terminated_run_leaves_nothing_behind(arena: Arena) -> None:
    """Clean-ups of a terminated run run no step: not for it, nor in another run."""
    _, handle, other = await beside(arena)
    await handle.terminate(reason="enough")
    await until(lambda: not arena.log.in_flight("d13"), "the step of the run is cancelled")
    await undisturbed(arena, other)
    assert (await handle.describe()).status == "terminated"


async def test_D13_a_stopped_run_leaves_nothing_behind(arena: Arena) -> None:
    """Clean-ups of a run whose worker is stopped run no step before the run's own end."""
    worker, handle, other = await beside(arena)
    await worker.stop()
    await arena.worker(APP)
    await undisturbed(arena, other)
    await cleaned_up(arena, handle)


async def test_D13_a_parked_run_leaves_nothing_behind(arena: Arena) -> None:
    """Clean-ups of a parked run run no step; under the code that fits it goes on to its end."""
    worker, handle, other = await beside(arena)
    await worker.stop()
    changed = await arena.worker(CHANGED)
    await handle.signal("unread", True)  # at the latest now, code and history meet
    await until(lambda: "parked" in arena.printed(), "the worker says that the run is parked")
    await undisturbed(arena, other)
    assert (await handle.describe()).status == "running"
    await changed.stop()
    await arena.worker(APP)
    await cleaned_up(arena, handle)


async def test_D14_the_recorded_state_wins(arena: Arena) -> None:
    """A state lost in a race stays lost after a KILL; the recorded one is what a query gives."""
    worker = await arena.worker(APP)
    rounds = 5
    handle = await arena.client.start(target("lost_state"), rounds, id="d14")
    await held(arena, "d14", "after")
    new = ["NEW"] * rounds
    assert [await handle.query(f"value-{n}") for n in range(rounds)] == new
    await kill(arena, worker, "d14")
    await arena.worker(APP)
    await held(arena, "d14", "after")
    assert [await handle.query(f"value-{n}") for n in range(rounds)] == new
    arena.let_go("d14.after")
    assert await handle.result(timeout=20) == "after"
    assert [await handle.query(f"value-{n}") for n in range(rounds)] == new
