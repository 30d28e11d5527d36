"""Run a program on the memory engine, in a random order and with crashes, and check it.

What must hold, wherever the crashes fell:

- the run ends, and no result changed hands (`Swapped` would have failed it);
- an effect whose record stood is not repeated, and what is repeated has the same arguments, at
  the same place of the history: nothing moved;
- messages come in their order, none twice and none lost;
- the state is the last that was set;
- the whole history, replayed, performs nothing and comes to the same outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from iworkflow.core.flow.driver import drive
from iworkflow.core.memory.host import MemoryBook, MemoryHost
from iworkflow.core.port import Completion, Operation, Outcome, Receive, RunInfo, RunStep, Sleep
from iworkflow.core.testing import Executed, FlowTest, RandomSchedule, Recorded
from iworkflow_lab.programs.app import app
from iworkflow_lab.programs.interpreter import interpret
from iworkflow_lab.programs.tree import Node, bodies

RUN = "program"


class Broken(AssertionError):
    """A program lost, moved, repeated or changed something."""


async def check(
    program: Node, messages: Sequence[tuple[float, str]], schedule: RandomSchedule
) -> int:
    """Run a program, and return how many crashes it went through.

    Raises:
        Broken: something of the above does not hold.
    """
    async with FlowTest(app, schedule=schedule) as test:
        run = await test.start(interpret, program, id=RUN)
        for number, (when, topic) in enumerate(messages):
            test.signal_at(when, RUN, topic, number)
        seen = await run.result()
        _check_effects(test)
        check_messages(messages, seen["messages"])
        issued = [(site, done) for site, done in seen["states"]]
        later = state_sites(program) - {site for site, _ in issued}
        check_state(await run.query("k"), issued, later)
        await _check_replay(test, seen)
    return schedule.crashes


def _check_effects(test: FlowTest) -> None:
    recorded: dict[int, str] = {}
    digests: dict[int, str] = {}
    for event in test.trace(RUN):
        if isinstance(event, Recorded) and event.kind == "step":
            recorded[event.place] = event.name
        if isinstance(event, Executed):
            if event.place in recorded:
                raise Broken(f"repeated: {event} after its record")
            digests[event.place] = event.digest
    for place, record in test.store.runs[RUN].history.items():
        if record.kind == "step" and digests.get(place) != record.digest:
            raise Broken(f"operation {place} has another step's record")


def check_messages(sent: Sequence[tuple[float, str]], got: dict[str, list[int]]) -> None:
    ordered = sorted(range(len(sent)), key=lambda n: sent[n][0])
    for topic, numbers in got.items():
        due = [n for n in ordered if sent[n][1] == topic]
        if numbers != due[: len(numbers)]:
            raise Broken(f"topic {topic!r}: received {numbers} of {due}")


def check_state(state: Any, issued: list[tuple[int, bool]], later: set[int]) -> None:
    """The state is the last that landed, or one that was issued after it."""
    landed = max((n for n, (_, done) in enumerate(issued) if done), default=-1)
    possible = {value for n, (value, _) in enumerate(issued) if n >= landed} | later
    if state not in possible and not (landed == -1 and state is None):
        raise Broken(f"state {state} is none of {possible}")


def state_sites(node: Node) -> set[int]:
    own = {node["site"]} if node["op"] == "state" else set[int]()
    return own.union(*map(state_sites, bodies(node)))


async def _check_replay(test: FlowTest, seen: dict[str, Any]) -> None:
    host = _Replay(test.store, test.store.runs[RUN], _NoSteps())
    replay = asyncio.ensure_future(drive(host, app))
    await asyncio.wait([replay], timeout=60)
    if host.parked_why is not None:
        replay.cancel()
        raise Broken(host.parked_why)
    if replay.result() != Outcome(seen):
        raise Broken(f"the replay saw {replay.result()}, the run {seen}")


class _Replay(MemoryHost):
    """A host over a whole history, for which nothing is left to perform."""

    async def perform(self, place: int, operation: Operation) -> Completion:
        """Leave in the air what the run had in the air when it ended."""
        if place in self.history and isinstance(operation, Sleep):
            return self.history[place].completion
        if place in self.history:
            raise Broken(f"operation {place} is recorded, and was performed again")
        never: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        return await never

    async def look(self, place: int, operation: Receive) -> bool:
        """Find nothing: what the run found is recorded."""
        return False

    async def record_order(self, place: int, order: Sequence[int]) -> None:
        """Refuse: a whole history holds every choice."""
        raise Broken(f"the replay made a choice of its own at operation {place}")


class _NoSteps:
    """What runs no step."""

    async def run(self, operation: RunStep, run: RunInfo, book: MemoryBook) -> Outcome:
        """Refuse."""
        raise Broken(f"step {operation.name!r} was run in a replay")
