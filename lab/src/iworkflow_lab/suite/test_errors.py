"""Errors as data: chains, cycles, odd constructors, groups, out of steps, flows and children."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

from typing import Any

import pytest

from iworkflow.core import FlowError, Handle, Target
from iworkflow_lab.apps.errors import told
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import held
from iworkflow_lab.until import until

APP = "iworkflow_lab.apps.errors:app"

Line = list[Any]


def line(type: str, message: str, details: Any = None) -> Line:
    """What a failure tells of itself."""
    return ["failed", type, message, details, False]


CHAIN = [
    line("ValueError", "the top"),
    line("Middle", "the middle", {"n": [1, 2]}),
    line("KeyError", "'the root'"),
]
CYCLE = [line("ValueError", "first"), line("KeyError", "'second'")]
ITSELF = [line("ValueError", "itself")]


def target(flow: str) -> Target[Any]:
    """Name a flow of the errors app."""
    return Target("errors", flow)


async def outcome(handle: Handle[Any]) -> list[Line]:
    """Wait for a run that fails, and tell its error and causes."""
    with pytest.raises(FlowError) as raised:
        await handle.result(timeout=30)
    return told(raised.value)


def final(lines: list[Line]) -> list[Line]:
    """Forget whether attempts ran out: that is the step's own matter."""
    return [[*one[:4], False] for one in lines]


async def seen(shared: Shared, how: str) -> dict[str, list[Line]]:
    """Fail in the way asked for; return what flow, parent and client see of it."""
    arena = await shared.arena_of(APP)
    run = f"e-{how}"
    arena.let_go(f"{run}.all")
    arena.let_go(f"{run}-fails.all")
    client = arena.client
    caught = await client.start(target("catches"), how, id=run)
    by_step = await client.start(target("fails_by_step"), how, id=f"{run}-step")
    parent = await client.start(target("parent"), how, id=f"{run}-parent")
    fails = await client.start(target("fails"), how, id=f"{run}-fails")
    views = {
        "flow": await caught.result(timeout=30),
        "client": await outcome(by_step),
        "parent": await parent.result(timeout=30),
        "own": await outcome(fails),
    }
    assert views["flow"][0][4] is (how != "failure")
    for one in (run, f"{run}-step", f"{run}-parent-child"):
        assert arena.log.ended(one)["breaks", how] == 1
    assert arena.log.ended(f"{run}-fails") == {("held", "gate"): 1}
    return {view: final(lines) for view, lines in views.items()}


def by_child(run: str, lines: list[Line]) -> list[Line]:
    """The lines as a parent sees them: the first names the child."""
    first, *rest = lines
    return [[first[0], first[1], f"child '{run}': {first[2]}", *first[3:]], *rest]


async def everywhere(shared: Shared, how: str, expected: list[Line]) -> None:
    """Check that flow, parent and client see these lines."""
    views = await seen(shared, how)
    assert views["flow"] == expected
    assert views["own"] == expected
    assert views["client"] == expected
    assert views["parent"] == by_child(f"e-{how}-parent-child", expected)


async def test_E01_a_chain_of_causes(shared: Shared) -> None:
    """Causes with types and details reach flow, parent and client, in order."""
    await everywhere(shared, "chain", CHAIN)


async def test_E01_the_context_is_a_cause(shared: Shared) -> None:
    """What was being handled counts as the cause; `from None` hides it."""
    await everywhere(
        shared, "context", [line("ValueError", "the top"), line("LookupError", "handled")]
    )


async def test_E01_a_deep_chain_is_cut(shared: Shared) -> None:
    """Of a hundred causes the first eight are carried."""
    await everywhere(shared, "deep", [line("ValueError", str(n)) for n in range(99, 90, -1)])


async def test_E01_the_same_after_a_kill(shared: Shared) -> None:
    """A caught error, its causes and details are the same after a KILL; the step is not rerun."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("catches"), "chain", id="e01-kill")
    await held(arena, "e01-kill", "gate")
    before = await handle.query("told")
    await shared.kill(APP)
    await shared.arena_of(APP)
    await held(arena, "e01-kill", "gate")
    arena.let_go("e01-kill.gate")
    assert await handle.result(timeout=30) == before
    assert final(before) == CHAIN
    assert arena.log.ended("e01-kill") == {("breaks", "chain"): 1, ("held", "gate"): 1}


async def test_E02_a_cycle_of_causes(shared: Shared) -> None:
    """An exception that is the cause of its cause is told once."""
    await everywhere(shared, "cycle", CYCLE)


async def test_E03_raised_from_itself(shared: Shared) -> None:
    """`raise e from e` is told once."""
    await everywhere(shared, "itself", ITSELF)


async def test_E04_constructors_with_arguments(shared: Shared) -> None:
    """Exceptions that cannot be built from their message: class name and message are told."""
    await everywhere(shared, "arguments", [line("Declined", "Ada declined with 7")])


async def test_E04_a_subclass_of_failure(shared: Shared) -> None:
    """A subclass of `Failure` with a constructor of its own: class name, message, details."""
    await everywhere(shared, "failure", [line("Late", "late by 3 days", {"days": 3})])


async def test_E04_no_text(shared: Shared) -> None:
    """An exception whose text cannot be had fails its step or flow all the same."""
    for view, lines in (await seen(shared, "mute")).items():
        assert [one[1] for one in lines] == ["Mute"], view
        assert "no message" in lines[0][2]


async def test_E05_a_group(shared: Shared) -> None:
    """A group tells its members in its message, and its first member as the cause."""
    for view, lines in (await seen(shared, "group")).items():
        assert [one[1] for one in lines] == ["ExceptionGroup", "ValueError"], view
        for part in ("outer", "ValueError: v", "Declined: Bob declined with 1", "KeyError: 'k'"):
            assert part in lines[0][2]


@pytest.mark.parametrize(("how", "attempts"), [("retryable", 2), ("final", 1)])
async def test_E05_out_of_a_step_s_task_group(shared: Shared, how: str, attempts: int) -> None:
    """A step fails by a `TaskGroup`: retried, unless a member is final."""
    arena = await shared.arena_of(APP)
    run = f"e05-{how}"
    handle = await arena.client.start(target("catches_tasks"), how, id=run)
    top, cause = await handle.result(timeout=30)
    assert top[:2] == ["failed", "ExceptionGroup"]
    assert top[4] is (how == "retryable")
    assert all(part in top[2] for part in ("a: a", "b: b", "c: c"))
    assert cause == line("a", "a")
    assert arena.log.ended(run) == {("breaks_in_tasks", how): attempts}


async def test_E05_out_of_a_flow_s_task_group(shared: Shared) -> None:
    """A flow's `TaskGroup` raises the step's error in a group; the sibling step is cancelled."""
    arena = await shared.arena_of(APP)
    caught = await arena.client.start(target("tasks"), True, id="e05-caught")
    error = ["Declined", "Ada declined with 7"]
    assert await caught.result(timeout=30) == [[error], ["sibling"]]
    ends = arena.log.ended("e05-caught")
    assert ends == {("breaks", "arguments"): 1, ("breaks_nothing", "after"): 1}
    uncaught = await arena.client.start(target("tasks"), False, id="e05-uncaught")
    top, cause = await outcome(uncaught)
    assert top[:2] == ["failed", "ExceptionGroup"]
    assert "Declined: Ada declined with 7" in top[2]
    assert cause == ["failed", *error, None, True]
    runs = ("e05-caught", "e05-uncaught")
    await until(lambda: not any(map(arena.log.in_flight, runs)), "the siblings are cancelled")
    for run in runs:
        assert ("held", "sibling") not in arena.log.ended(run)
