"""The differential: what it draws, what it expects, what it finds wrong."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from iworkflow.core.testing import RandomSchedule
from iworkflow_lab.effects import Effect
from iworkflow_lab.programs.cases import Case, draw, smaller, told
from iworkflow_lab.programs.on_memory import Broken
from iworkflow_lab.programs.oracle import Expected, Seen, foresee
from iworkflow_lab.programs.tree import Node, bodies, holding
from iworkflow_lab.programs.verdicts import check_executions, check_settled

BEGIN = Effect("begin", "p", "effect", "1:0", "a", worker="7")
END = replace(BEGIN, what="end")
AGAIN = replace(BEGIN, call="b", worker="8")
KILL = Effect("kill", worker="7")
SEEN = Seen({"tree": ["1:0"], "spawned": {}}, {"r": 1})
EXPECTED = Expected({"p": SEEN}, frozenset({("p", "effect", "1:0")}))


def without_races(node: Node) -> Node:
    """A schedule of the testing kit may hold a step for hours, or wait for one that hangs."""
    if node["op"] in ("pick", "abort"):
        return {"op": "step", "site": node["site"]}
    if node["op"] == "timeout" and node["after"]:
        node = {**node, "op": "shield"}
    return holding(node, [without_races(child) for child in bodies(node)])


@pytest.mark.parametrize("dice", range(2))
async def test_a_settled_program_comes_to_one_outcome_in_any_order(dice: int) -> None:
    """Also with crashes: or a disagreement of an engine would prove nothing."""
    cases = [case for case in draw(24, dice) if case.settled]
    for number, case in enumerate(cases):
        program = without_races(case.program)
        schedule = RandomSchedule(dice * 100 + number, crash_rate=0.1)
        expected = await foresee(program, "p")
        assert await foresee(program, "p", schedule) == expected, told(case)


def test_one_seed_draws_one_list() -> None:
    """A disagreement can be repeated; both kinds of programs are drawn."""
    assert draw(8, 5) == draw(8, 5) != draw(8, 6)
    assert {case.settled for case in draw(8, 5)} == {True, False}


def test_what_is_tried_to_shrink_a_program_is_smaller() -> None:
    """So that shrinking ends; and each try is a program that memory can run."""
    case = max((case for case in draw(10, 1) if case.settled), key=lambda case: case.size)
    tries = list(smaller(case))
    assert tries
    for one in tries:
        assert one.size < case.size
        asyncio.run(foresee(one.program, "p"))


def test_messages_are_left_out_one_by_one() -> None:
    """A program may be as small as it gets and still have more messages than it needs."""
    case = Case({"op": "step", "site": 1}, False, [(0.0, "x"), (1.0, "y")])
    assert [list(one.messages) for one in smaller(case)] == [[(1.0, "y")], [(0.0, "x")]]


@pytest.mark.parametrize(
    "effects",
    [[BEGIN, END], [BEGIN, KILL, AGAIN], [BEGIN, END, KILL, AGAIN]],
    ids=["once", "cut off", "killed before its record"],
)
def test_what_may_be_repeated(effects: list[Effect]) -> None:
    """A step whose worker was killed before its record may run again."""
    check_executions(effects, {effects[-1].call})


@pytest.mark.parametrize(
    ("effects", "recorded"),
    [([BEGIN, END, AGAIN], {"b"}), ([BEGIN, END, KILL, AGAIN], {"a"})],
    ids=["without a kill", "after its record"],
)
def test_what_may_not_be_repeated(effects: list[Effect], recorded: set[str]) -> None:
    """No kill, or a record that stood: the effect was there twice for nothing."""
    with pytest.raises(Broken, match="again"):
        check_executions(effects, recorded)


def test_an_attempt_that_failed_is_followed_by_another() -> None:
    """The retries of a step are no repetition."""
    check_executions([BEGIN, replace(BEGIN, what="fail"), AGAIN], {"b"})


def test_what_agrees_with_memory() -> None:
    """The same outcome, state and effects."""
    check_settled(EXPECTED, {"p": SEEN}, [BEGIN, END])


@pytest.mark.parametrize(
    ("seen", "effects"),
    [
        (replace(SEEN, outcome={"error": []}), [END]),
        (replace(SEEN, states={"r": 2}), [END]),
        (SEEN, []),
        (SEEN, [END, replace(END, key="2:0")]),
    ],
    ids=["outcome", "state", "effect missing", "effect too many"],
)
def test_what_does_not_agree_with_memory(seen: Seen, effects: list[Effect]) -> None:
    """Each of the three alone is a disagreement."""
    with pytest.raises(Broken):
        check_settled(EXPECTED, {"p": seen}, effects)
