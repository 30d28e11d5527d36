"""The worst that a step can do: each is a failed attempt or a dropped result, never more."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import time
from typing import Any

import pytest

from iworkflow_lab.apps.step_sorts import SORTS
from iworkflow_lab.apps.step_worst import ENDS
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.stepping import APP, begin, keys, lines, past, seen, target, tell
from iworkflow_lab.suite.waits import held
from iworkflow_lab.until import until


async def test_S27_a_blocked_loop_is_no_death(arena: Arena) -> None:
    """A step that holds the event loop for long loses nothing: no other worker takes over."""
    for _ in range(2):
        await arena.worker(APP)
    handle = await begin(arena, "s27", "blocks", 4.0)
    assert await handle.result(timeout=30) == "done"
    after = await begin(arena, "s27-after", "tenfold", 1)
    assert await after.result(timeout=20) == 10
    assert arena.log.begun("s27") == {("blocks", "blocks"): 1}


async def test_S27_a_blocked_loop_is_no_timeout(shared: Shared) -> None:
    """A step that holds the loop past its timeout and then returns has returned."""
    options = {"timeout": 0.4, "heartbeat_timeout": 0.4}
    assert await tell(shared, "s27-late", "blocks", 1.2, **options) == "done"
    assert keys(shared, "s27-late") == ["blocks"]


async def test_S28_a_deaf_attempt_is_left_to_itself(shared: Shared) -> None:
    """It swallows every cancel: the log says so, and the next attempt waits for its slot."""
    arena, run = await shared.arena_of(APP), "s28"
    handle = await begin(
        arena, run, "deaf", "key", pool="deaf", timeout=0.4, attempts=2, retry_interval=0.05
    )
    await seen(shared, run, "ignored")
    await until(lambda: f"{run!r} ignores its cancel" in arena.printed(), "the log tells")
    assert await tell(shared, "s28-beside", "tenfold", 1) == 10
    await past(time.time() + 1)
    assert keys(shared, run) == ["key"]
    arena.let_go(f"{run}.key")
    result = await handle.result(timeout=20)
    first, second = lines(shared, run, "begin")
    ended = [effect.call for effect in lines(shared, run, "end")]
    assert (result, ended) == (second.call, [first.call, second.call])
    assert second.at >= lines(shared, run, "end")[0].at


async def test_S28_a_deaf_step_holds_up_no_terminate(shared: Shared) -> None:
    """The run of a step that swallows every cancel is terminated at once, for its client."""
    arena, run = await shared.arena_of(APP), "s28-terminate"
    handle = await begin(arena, run, "deaf", "key")
    await held(arena, run, "key")
    await handle.terminate()
    assert (await handle.describe()).status == "terminated"
    await seen(shared, run, "ignored")
    arena.let_go(f"{run}.key")
    await seen(shared, run, "end")
    assert (await handle.describe()).status == "terminated"
    assert keys(shared, run) == ["key"]


async def test_S28_a_deaf_step_holds_up_no_stop(arena: Arena) -> None:
    """A worker stops although a step swallows every cancel; another one runs the step anew."""
    worker = await arena.worker(APP)
    handle = await begin(arena, "s28-stop", "deaf", "key")
    await held(arena, "s28-stop", "key")
    told = time.monotonic()
    await worker.stop()
    assert time.monotonic() - told < 15
    await arena.worker(APP)
    await until(lambda: len(arena.log.begun("s28-stop")) == 1, "it was begun")
    await until(lambda: arena.log.begun("s28-stop").total() == 2, "it is begun again")
    again = [e for e in arena.log.read("s28-stop") if e.what == "begin"][-1]
    arena.let_go(again.call)
    assert await handle.result(timeout=20) == again.call


Call = tuple[str, str, dict[str, Any]]
ASKED = ["heartbeat", "last_heartbeat", "step_attempt", "step_info", "step_signal"]
REFUSED = [f"{name}() works only inside a step that an engine runs" for name in ASKED]


async def test_S29_outside_of_a_step(shared: Shared) -> None:
    """A flow is told that what a step may ask works inside a step alone; the run goes on."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("asks_as_a_step"), id="s29-outside")
    assert await handle.result(timeout=20) == [REFUSED, 10]
    assert keys(shared, "s29-outside") == ["decorated"]


async def test_S29_each_attempt_knows_itself(shared: Shared) -> None:
    """Steps that run at once, in tasks and threads, each ask for themselves, and are told so."""
    arena = await shared.arena_of(APP)
    calls: list[Call] = [
        (step, f"{step} {n}", {}) for n in range(4) for step in ("itself", "sync_itself")
    ]
    handle = await arena.client.start(target("crowd"), calls, id="s29-crowd")
    await held(arena, "s29-crowd", *(key for _, key, _ in calls))
    arena.let_go("s29-crowd.all")
    told = await handle.result(timeout=30)
    assert told == [[key, f"attempt 2 of {step}, read {key}"] for step, key, _ in calls]
    assert arena.log.ended("s29-crowd") == {(step, key): 1 for step, key, _ in calls}


async def test_S29_what_a_step_leaks_reports_nothing(arena: Arena) -> None:
    """A task and a thread that an attempt left behind hold up neither it nor the worker.

    They go on as the attempt that they were, and a thread without its context as none. What they
    report after its end is not taken: after a KILL, too, the next attempt has its own number and
    reads what the first one reported itself.
    """
    worker = await arena.worker(APP)
    handle = await begin(arena, "s29", "leaks", retry_interval=0.05)
    await until(lambda: outwaited(arena) == 1, "what was left behind has reported")
    await worker.kill()
    worker = await arena.worker(APP)
    await until(lambda: outwaited(arena) == 2, "the attempt is made again")
    arena.let_go("s29.2")
    assert await handle.result(timeout=30) == [2, "mine"]
    whose = "attempt 1 of leaks, read None"
    leaked = [e.result for e in arena.log.read("s29") if e.what == "leaked"]
    assert sorted(leaked) == [f"task: {whose}", f"thread: {whose}"]
    assert [e.result for e in arena.log.read("s29") if e.what == "outside"] == ["; ".join(REFUSED)]
    assert arena.log.begun("s29") == {("leaks", "1"): 1, ("leaks", "2"): 2}
    assert arena.log.ended("s29") == {("leaks", "1"): 1, ("leaks", "2"): 1}
    await worker.stop()


def outwaited(arena: Arena) -> int:
    """Count the attempts that have outwaited what the first one left behind."""
    return len([e for e in arena.log.read("s29") if e.what == "outwaited"])


@pytest.mark.parametrize("step", ["ends_all", "sync_ends_all"])
@pytest.mark.parametrize("kind", ENDS)
async def test_S30_what_ends_programs_fails_an_attempt(
    shared: Shared, step: str, kind: str
) -> None:
    """Raised by a step, it is a failed attempt like any: the second works, the worker lives."""
    run = f"s30-{step}-{kind}"
    assert await tell(shared, run, step, kind, retry_interval=0.05) == 2
    assert keys(shared, run) == [f"{kind} 1", f"{kind} 2"]


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "CancelledError"])
async def test_S30_its_name_is_the_type(shared: Shared, kind: str) -> None:
    """With no attempt left, the error is of that type, and exhausted; the run is not cancelled."""
    told = await tell(shared, f"s30-last-{kind}", "ends_all", kind, attempts=1)
    assert (told["type"], told["reason"], told["exhausted"]) == (kind, "failed", True)
    assert keys(shared, f"s30-last-{kind}") == [f"{kind} 1"]


async def test_S30_a_step_that_cancels_itself(shared: Shared) -> None:
    """A step that cancels its own task has failed an attempt, and nothing else is cancelled."""
    assert await tell(shared, "s30-itself", "cancels_itself", retry_interval=0.05) == 2
    assert keys(shared, "s30-itself") == ["1", "2"]


async def test_S31_a_coroutine_of_a_sync_step_is_awaited(shared: Shared) -> None:
    """A plain function may return a coroutine, as decorators do: it is awaited."""
    assert await tell(shared, "s31", "gives_coroutine", 7) == 70
    assert keys(shared, "s31") == ["coroutine", "partial"]


async def test_S31_a_forgotten_await_is_final(shared: Shared) -> None:
    """An async step that returns a coroutine forgot to await it: a final `EncodeError`."""
    told = await tell(shared, "s31-forgotten", "forgets_await", 7)
    assert (told["type"], told["exhausted"]) == ("EncodeError", False)
    assert "coroutine" in told["message"]
    assert keys(shared, "s31-forgotten") == ["forgotten"]


@pytest.mark.parametrize("name", SORTS)
async def test_S32_callables_of_every_sort_are_steps(shared: Shared, name: str) -> None:
    """Objects, methods, partials and what decorators make run as steps, once, typed."""
    args = [] if name == "lambda" else [7]
    assert await tell(shared, f"s32-{name}", name, *args) == 70
    assert len(keys(shared, f"s32-{name}")) == (2 if name == "gives_coroutine" else 1)
