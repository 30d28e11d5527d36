"""Steps that end early: how they hear of it, how soon, and what becomes of their results."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import time
from typing import Any

import pytest

from iworkflow.core import FlowError, Handle, Reason
from iworkflow_lab.effects import Effect
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.stepping import APP, begin, keys, lines, seen, target, tell
from iworkflow_lab.suite.waits import held
from iworkflow_lab.until import until

LISTENERS = {"sync_listens", "listens"}


async def test_S21_blocking_steps_hold_up_nothing(shared: Shared) -> None:
    """While 40 sync steps block, another flow's timers and steps go on; all run side by side."""
    arena = await shared.arena_of(APP)
    names = [f"block-{n}" for n in range(40)]
    calls: list[Any] = [("sync_work", name, {}) for name in names]
    blocking = await arena.client.start(target("crowd"), calls, id="s21")
    await held(arena, "s21", *names)
    ticking = await arena.client.start(target("ticks"), 5, id="s21-ticks")
    assert await ticking.result(timeout=20) == 5
    assert {effect.key for effect in arena.log.in_flight("s21")} == set(names)
    arena.let_go("s21.all")
    assert await blocking.result(timeout=20) == names
    assert arena.log.ended("s21") == {("sync_work", name): 1 for name in names}


async def by_terminate(shared: Shared, step: str) -> None:
    """Terminate the run while the step runs."""
    arena, run = await shared.arena_of(APP), f"{step}-terminate"
    handle = await begin(arena, run, step, "key")
    await held(arena, run, "key")
    told_at = time.time()
    await handle.terminate(reason="enough")
    cancel = await left(shared, run)
    assert cancel.at - told_at <= 1
    await came_to(handle, Reason.TERMINATED, "terminated")


async def by_deadline(shared: Shared, step: str) -> None:
    """Let the run's own timeout pass while the step runs."""
    arena, run = await shared.arena_of(APP), f"{step}-deadline"
    asked = time.time()
    handle = await arena.client.start(target("tell"), step, ["key"], {}, id=run, timeout=1.5)
    due = (await handle.describe()).started_at.timestamp() + 1.5
    cancel = await left(shared, run)
    assert cancel.at - asked >= 1.5
    assert cancel.at - due <= 1
    await came_to(handle, Reason.TIMEOUT, "timed-out")


async def by_flow(shared: Shared, step: str) -> None:
    """Let the flow give up on the step, and go on."""
    arena, run = await shared.arena_of(APP), f"{step}-flow"
    handle = await arena.client.start(target("gives_up"), step, 0.7, id=run)
    gave_up, at, then = await handle.result(timeout=20)
    assert (gave_up, then) == ("gave up", 10)
    cancel = await left(shared, run)
    assert cancel.at - at <= 1


async def by_attempt(shared: Shared, step: str) -> None:
    """Let the attempt take longer than it may."""
    run = f"{step}-attempt"
    told = await tell(shared, run, step, "key", timeout=0.5, attempts=1)
    assert (told["reason"], told["exhausted"]) == ("timeout", True)
    cancel = await left(shared, run)
    (begun,) = lines(shared, run, "begin")
    assert cancel.result == "timeout"
    assert 0.5 <= cancel.at - begun.at <= 1.5


async def left(shared: Shared, run: str) -> Effect:
    """Wait until the step has cleaned up and left, once; return the line of its cancel."""
    await seen(shared, run, "cleaned")
    (cancel,) = lines(shared, run, "cancel")
    assert [e.key for e in lines(shared, run, "begin") if e.step in LISTENERS] == ["key"]
    assert not [e for e in lines(shared, run, "end") if e.step in LISTENERS]
    return cancel


async def came_to(handle: Handle[Any], reason: Reason, status: str) -> None:
    """Check for what reason the run came to nothing."""
    with pytest.raises(FlowError) as caught:
        await handle.result(timeout=20)
    assert caught.value.reason == reason
    assert (await handle.describe()).status == status


WAYS = {"terminate": by_terminate, "deadline": by_deadline, "flow": by_flow, "attempt": by_attempt}


@pytest.mark.parametrize("way", WAYS)
async def test_S22_a_sync_step_sees_its_cancel(shared: Shared, way: str) -> None:
    """Whatever ends it early, a step in a thread sees it within a second, by its signal."""
    await WAYS[way](shared, "sync_listens")


@pytest.mark.parametrize("way", WAYS)
async def test_S23_an_async_step_is_cancelled(shared: Shared, way: str) -> None:
    """Whatever ends it early, an async step gets `CancelledError`, and cleans up to its end."""
    await WAYS[way](shared, "listens")


async def test_S23_the_next_attempt_waits_for_the_clean_up(shared: Shared) -> None:
    """An attempt that cleans up after its cancel is not left to itself: the next comes after it."""
    options = {"timeout": 0.7, "retry_interval": 0.01}
    assert await tell(shared, "s23-tidies", "tidies", **options) == 2
    assert keys(shared, "s23-tidies") == ["1", "2"]
    (cleaned, _), (_, second) = [lines(shared, "s23-tidies", what) for what in ("end", "begin")]
    assert cleaned.key == "1"
    assert cleaned.at <= second.at
    assert "'s23-tidies' ignores its cancel" not in shared.arena.printed()


SWALLOWERS = ["swallows", "sync_swallows"]


@pytest.mark.parametrize("step", SWALLOWERS)
async def test_S24_a_late_result_of_an_attempt_is_dropped(shared: Shared, step: str) -> None:
    """An attempt that swallows its timeout and returns has failed; the second one's counts."""
    run = f"{step}-attempt"
    assert await tell(shared, run, step, "key", timeout=0.4, retry_interval=0.05) == "second"
    assert [e.result for e in lines(shared, run, "end")] == ["too late", "second"]


@pytest.mark.parametrize("step", SWALLOWERS)
async def test_S24_a_late_result_of_the_last_attempt_is_dropped(shared: Shared, step: str) -> None:
    """If it was the last attempt, the step failed of a timeout, for all that it returned."""
    run = f"{step}-last"
    told = await tell(shared, run, step, "key", timeout=0.4, attempts=1)
    assert (told["reason"], told["exhausted"]) == ("timeout", True)
    assert (await seen(shared, run, "end")).result == "too late"


@pytest.mark.parametrize("step", SWALLOWERS)
async def test_S24_a_late_result_reaches_no_flow(shared: Shared, step: str) -> None:
    """A flow that gave up on a step goes on without it; the late result is nowhere."""
    arena, run = await shared.arena_of(APP), f"{step}-flow"
    handle = await arena.client.start(target("gives_up"), step, 0.4, id=run)
    result = await handle.result(timeout=20)
    assert (result[0], result[2]) == ("gave up", 10)
    await until(lambda: "key" in keys(shared, run, "end"), "the step returns")
    assert sorted(keys(shared, run)) == ["decorated", "key"]


@pytest.mark.parametrize("step", SWALLOWERS)
async def test_S24_a_late_result_ends_no_run(shared: Shared, step: str) -> None:
    """The run of a step that swallows a terminate is terminated all the same."""
    arena, run = await shared.arena_of(APP), f"{step}-terminate"
    handle = await begin(arena, run, step, "key")
    await held(arena, run, "key")
    await handle.terminate()
    assert (await seen(shared, run, "end")).result == "too late"
    await came_to(handle, Reason.TERMINATED, "terminated")
    assert keys(shared, run) == ["key"]
