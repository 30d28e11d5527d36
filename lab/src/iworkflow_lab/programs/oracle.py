"""What a settled program comes to in memory: with that, every engine has to agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iworkflow.core import FlowError
from iworkflow.core.codec import loads
from iworkflow.core.errors import ErrorData
from iworkflow.core.memory.store import Run, thaw_outcome
from iworkflow.core.testing import FlowTest
from iworkflow.core.testing.stage import Schedule
from iworkflow_lab.programs.app import app
from iworkflow_lab.programs.settled import settle
from iworkflow_lab.programs.settled_grammar import mail_for
from iworkflow_lab.programs.steps import token
from iworkflow_lab.programs.tree import Node


@dataclass(frozen=True, slots=True)
class Seen:
    """What one run came to, as far as it is the same everywhere."""

    outcome: Any
    states: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a program has to come to: its run, its children, and every effect."""

    runs: Mapping[str, Seen]
    effects: frozenset[tuple[str, str, str]]
    """Run, step and token of each step that has to end."""


async def foresee(program: Node, id: str, schedule: Schedule | None = None) -> Expected:
    """Run the program in memory; whatever the schedule does, it comes to the same."""
    async with FlowTest(app, schedule=schedule) as test:
        await test.start(settle, program, id=id)
        for when, topic, value in mail_for(program):
            test.signal_at(when, id, topic, value)
        await test.finish()
        effects = {
            (one.run, one.step, token(*one.args)) for one in test.executions if one.step != "hang"
        }
        return Expected(
            {run.id: _seen(run) for run in test.store.runs.values()}, frozenset(effects)
        )


def _seen(run: Run) -> Seen:
    assert run.outcome is not None
    states = {key: loads(value) for key, value in run.state.items()}
    outcome = thaw_outcome(run.outcome)
    return Seen(common(outcome.value if outcome.error is None else outcome.error), states)


def common(outcome: Any) -> Any:
    """Return what of a value or an error is the same everywhere: not which executions made it."""
    if isinstance(outcome, FlowError | ErrorData):
        return {"error": [str(outcome.reason), outcome.type, outcome.message, outcome.exhausted]}
    return {name: outcome[name] for name in ("tree", "spawned")}
