"""Crash a flow at every point of its life and compare what it comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iworkflow.core.codec import loads
from iworkflow.core.definition import AppDefinition
from iworkflow.core.memory.store import Run, thaw_outcome
from iworkflow.core.testing.fakes import Fake, StepKey
from iworkflow.core.testing.kit import FlowTest
from iworkflow.core.testing.patience import Stuck
from iworkflow.core.testing.stage import Point

if TYPE_CHECKING:
    from iworkflow.core.client import Handle
    from iworkflow.core.definition import Flow

Steps = Mapping[StepKey, Fake]
Script = Callable[[FlowTest, "Handle[Any]"], Awaitable[None]]

_Step = tuple[str, str, str]
"""A run, a step of it, and the fingerprint of its arguments."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What came out otherwise because of a crash."""

    point: Point
    what: str

    def __str__(self) -> str:
        return f"crash {self.point.number}, {self.point}: {self.what}"


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep found: at how many points it crashed, and what differed."""

    points: int
    differences: Sequence[Difference] = field(default=())

    def check(self) -> None:
        """Raise if a crash made a difference.

        Raises:
            AssertionError: lists the differences.
        """
        if self.differences:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        good = self.points - len({d.point.number for d in self.differences})
        head = f"{good} of {self.points} crashes made no difference"
        return "\n".join([head, *map(str, self.differences)])


async def sweep(
    app: AppDefinition,
    flow: Flow | str,
    *args: Any,
    others: Sequence[AppDefinition] = (),
    steps: Steps | Callable[[], Steps] | None = None,
    script: Script | None = None,
    id: str = "sweep",
) -> SweepReport:
    """Run a flow once, then once for each point with a crash there, and compare.

    The points are before the effect of each operation, after it, and after its record, and
    before the outcome of each run is recorded. Compared are the outcomes and the states of all
    runs, and how often each step ran with which arguments: a step that the crash caught before
    its record may run once more, any other may not.

    Args:
        app: the app.
        flow: the flow, or its name.
        args: its arguments after the context.
        others: further apps, for children.
        steps: what runs in place of steps; a function makes a fresh set for each run.
        script: called after each start, to send messages and the like.
        id: the id of the run.

    Raises:
        Stuck: the flow does not come to an end even without a crash.
    """

    async def once(crash_at: Sequence[int]) -> _Seen:
        fakes = steps() if callable(steps) else steps
        async with FlowTest(app, *others, steps=fakes, crash_at=crash_at) as t:
            handle = await t.start(t.target(flow), *args, id=id)
            if script is not None:
                await script(t, handle)
            return await _watch(t)

    plain = await once(())
    if plain.stuck is not None:
        raise plain.stuck
    differences: list[Difference] = []
    for point in plain.points:
        crashed = await once((point.number,))
        differences += [Difference(point, what) for what in _compare(plain, crashed)]
    return SweepReport(len(plain.points), tuple(differences))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one run of the program came to."""

    points: list[Point]
    runs: dict[str, dict[str, Any]]
    steps: Counter[_Step]
    interrupted: Counter[_Step]
    stuck: Stuck | None = None


async def _watch(t: FlowTest) -> _Seen:
    stuck = None
    try:
        await t.finish()
    except Stuck as error:
        stuck = error
    return _Seen(
        points=list(t.points),
        runs={run.id: _facts(run) for run in t.store.runs.values()},
        steps=Counter((e.run, e.step, e.digest) for e in t.executions),
        interrupted=Counter((e.run, e.step, e.digest) for e in t.interrupted),
        stuck=stuck,
    )


def _facts(run: Run) -> dict[str, Any]:
    outcome = None if run.outcome is None else thaw_outcome(run.outcome)
    state = {key: loads(value) for key, value in run.state.items()}
    return {"status": run.status, "outcome": outcome, "state": state}


def _compare(plain: _Seen, crashed: _Seen) -> list[str]:
    found = [] if crashed.stuck is None else [str(crashed.stuck)]
    for run_id in sorted(plain.runs.keys() | crashed.runs.keys()):
        found += _compare_runs(run_id, plain.runs.get(run_id), crashed.runs.get(run_id))
    for step in sorted(plain.steps.keys() | crashed.steps.keys()):
        found += _compare_steps(step, plain, crashed)
    return found


def _compare_runs(
    run_id: str, plain: dict[str, Any] | None, crashed: dict[str, Any] | None
) -> list[str]:
    if plain is None or crashed is None:
        return [f"run {run_id!r} was {'started' if plain is None else 'never started'}"]
    return [
        f"{what} of {run_id!r} is {crashed[what]!r}, without a crash {plain[what]!r}"
        for what in plain
        if plain[what] != crashed[what]
    ]


def _compare_steps(step: _Step, plain: _Seen, crashed: _Seen) -> list[str]:
    least, times = plain.steps[step], crashed.steps[step]
    most = least + crashed.interrupted[step]
    if least <= times <= most:
        return []
    run_id, name, _ = step
    return [f"step {name!r} of {run_id!r} ran {times} times, not {least} to {most}"]
