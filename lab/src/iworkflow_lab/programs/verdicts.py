"""What must hold of a run on a live engine, seen from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from iworkflow_lab.effects import Effect
from iworkflow_lab.programs.cases import Case
from iworkflow_lab.programs.on_memory import Broken, check_messages, check_state, state_sites
from iworkflow_lab.programs.oracle import Expected, Seen

Key = tuple[str, str, str]
"""Run, step and token."""


def check_executions(effects: Sequence[Effect], recorded: set[str]) -> None:
    """Nothing ran again without a reason: it had failed, or its worker was killed.

    And of a step whose record is known to stand, the recorded execution is the last: nothing
    ran again after its record.

    Args:
        effects: the log of one run and its children, with the kills.
        recorded: the executions whose results the flow got.
    """
    for key, begun in _executions(effects).items():
        for earlier, later in pairwise(begun):
            if not _may_repeat(effects[earlier : later + 1]):
                raise Broken(f"{key} began again: {effects[earlier]}, then {effects[later]}")
        known = [n for n, at in enumerate(begun) if effects[at].call in recorded]
        if known and known[-1] != len(begun) - 1:
            raise Broken(f"{key} ran again after its record: {effects[begun[-1]]}")


def _executions(effects: Sequence[Effect]) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = {}
    for at, effect in enumerate(effects):
        if effect.what == "begin":
            found.setdefault((effect.run, effect.step, effect.key), []).append(at)
    return found


def _may_repeat(between: Sequence[Effect]) -> bool:
    first = between[0]
    return any(
        (effect.what == "fail" and effect.call == first.call)
        or (effect.what == "kill" and effect.worker == first.worker)
        for effect in between
    )


def check_settled(expected: Expected, runs: Mapping[str, Seen], effects: Iterable[Effect]) -> None:
    """Every run came to what it came to in memory, and so did the effects."""
    for id, seen in expected.runs.items():
        if runs[id] != seen:
            raise Broken(f"{id}:\n  in memory {seen}\n  here      {runs[id]}")
    done = frozenset(
        (effect.run, effect.step, effect.key)
        for effect in effects
        if effect.what in ("end", "fail") and effect.step != "hang"
    )
    if done != expected.effects:
        missing, extra = expected.effects - done, done - expected.effects
        raise Broken(f"effects that did not happen: {missing}, that should not have: {extra}")


def check_free(case: Case, seen: dict[str, Any], state: Any) -> None:
    """Messages came in their order, none twice; the state is one that was set last."""
    check_messages(case.messages, seen["messages"])
    issued = [(site, done) for site, done in seen["states"]]
    later = state_sites(case.program) - {site for site, _ in issued}
    check_state(state, issued, later)
