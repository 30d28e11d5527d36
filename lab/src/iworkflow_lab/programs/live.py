"""Runs programs on an engine: many at once, in worker processes that are killed at random."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from iworkflow.core import FlowError, Handle
from iworkflow_lab.effects import Effect
from iworkflow_lab.engines.base import Arena, Worker
from iworkflow_lab.programs.app import APP, app
from iworkflow_lab.programs.cases import Case
from iworkflow_lab.programs.interpreter import interpret
from iworkflow_lab.programs.on_memory import Broken
from iworkflow_lab.programs.oracle import Expected, Seen, common, foresee
from iworkflow_lab.programs.settled import settle
from iworkflow_lab.programs.settled_grammar import mail_for
from iworkflow_lab.programs.verdicts import check_executions, check_free, check_settled

PATIENCE = 90.0
"""Seconds after which a run of a batch will never end; each kill adds some."""
PER_KILL = 15.0
SILENCE = 6.0
_PARKED = re.compile(r"^.*(?:parked at|can never go on|parked:).*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A program that is broken, and how."""

    case: Case
    why: str


@dataclass(slots=True)
class Tally:
    """What a lane went through."""

    programs: int = 0
    met: int = 0
    """Programs that were on their way when workers were killed."""
    kills: int = 0


@dataclass(slots=True)
class _Run:
    """One program on its way."""

    case: Case
    id: str
    expected: Expected | None
    handle: Handle[Any] | None = None
    outcome: Any = None
    error: FlowError | None = None
    why: str = "did not end"
    """Why there is no outcome; empty once there is one."""
    parked: asyncio.Event = field(default_factory=asyncio.Event)
    over: bool = False
    met: bool = False

    def take(self, result: asyncio.Task[Any]) -> None:
        """Keep what the run came to, unless waiting for it was given up."""
        try:
            self.outcome = result.result()
        except FlowError as error:
            self.error = error
        self.why = ""


class Lane:
    """One engine's store, its workers, and the batches that go through them.

    Args:
        arena: the store.
        seed: draws the moments of the kills.
        workers: how many worker processes share the runs.
    """

    def __init__(self, arena: Arena, *, seed: int, workers: int = 2) -> None:
        self._arena = arena
        self._random = random.Random(seed)
        self._wanted = workers
        self._workers: list[Worker] = []
        self._batches = 0
        self._read = 0
        self.tally = Tally()

    async def batch(self, cases: Sequence[Case], *, kills: int = 0) -> list[Trouble]:
        """Run the cases at once, killing workers meanwhile, and return what is broken."""
        self._batches += 1
        await self._staff()
        runs = [await self._foreseen(case, number) for number, case in enumerate(cases)]
        await asyncio.gather(*map(self._begin, runs))
        posts = [asyncio.create_task(self._post(run)) for run in runs]
        watch = asyncio.create_task(self._watch(runs))
        killer = asyncio.create_task(self._kill(runs, kills))
        patience = PATIENCE + PER_KILL * kills
        await asyncio.gather(*(self._end(run, patience) for run in runs))
        await killer
        for task in [watch, *posts]:
            task.cancel()
        self.tally.programs += len(cases)
        self._look_for_parked(runs)
        return [t for run in runs if (t := await self._judged(run)) is not None]

    async def _staff(self) -> None:
        missing = self._wanted - len(self._workers)
        self._workers += await asyncio.gather(*(self._worker() for _ in range(missing)))

    async def _worker(self) -> Worker:
        return await self._arena.worker(APP, silence=SILENCE)

    async def _foreseen(self, case: Case, number: int) -> _Run:
        id = f"b{self._batches}-{number}"
        return _Run(case, id, await foresee(case.program, id) if case.settled else None)

    async def _begin(self, run: _Run) -> None:
        flow = settle if run.case.settled else interpret
        target = app.target(flow.__name__)
        run.handle = await self._arena.client.start(target, run.case.program, id=run.id)

    async def _post(self, run: _Run) -> None:
        sent: list[tuple[float, str, Any]] = mail_for(run.case.program)
        if not run.case.settled:
            sent = [(when, topic, n) for n, (when, topic) in enumerate(run.case.messages)]
        now = 0.0
        with suppress(FlowError):  # the run may be over
            for when, topic, value in sorted(sent, key=lambda one: one[0]):
                await asyncio.sleep(when - now)
                now = when
                assert run.handle is not None
                await run.handle.signal(topic, value)

    async def _end(self, run: _Run, patience: float) -> None:
        """Wait until the run has ended, or never will."""
        assert run.handle is not None
        result = asyncio.create_task(run.handle.result(timeout=patience))
        parked = asyncio.create_task(run.parked.wait())
        await asyncio.wait({result, parked}, return_when=asyncio.FIRST_COMPLETED)
        parked.cancel()
        with suppress(TimeoutError):
            if result.done():
                run.take(result)
        result.cancel()
        run.over = True

    # Kills.

    async def _kill(self, runs: Sequence[_Run], kills: int) -> None:
        for _ in range(kills):
            left = [run for run in runs if not run.over]
            lines = self._lines() + self._random.randint(1, 1 + len(left))
            while self._lines() < lines and any(not run.over for run in runs):
                await asyncio.sleep(0.01)
            await asyncio.sleep(self._random.uniform(0, 0.1))
            met = [run for run in runs if not run.over]
            if not met:
                return
            await self._kill_some()
            self.tally.kills += 1
            self.tally.met += sum(not run.met for run in met)
            for run in met:
                run.met = True
            await self._staff()

    async def _kill_some(self) -> None:
        """Kill one worker, whose runs the others take over, or all of them."""
        self._random.shuffle(self._workers)
        everyone = len(self._workers)
        for _ in range(self._random.choice([1, everyone, everyone])):
            await self._workers.pop().kill()

    def _lines(self) -> int:
        return len(self._arena.log.read())

    # Verdicts.

    async def _watch(self, runs: Sequence[_Run]) -> None:
        while True:
            self._look_for_parked(runs)
            await asyncio.sleep(0.5)

    def _look_for_parked(self, runs: Sequence[_Run]) -> None:
        printed = self._arena.printed()
        whole = printed.rfind("\n") + 1
        lines, self._read = _PARKED.findall(printed[self._read : whole]), whole
        for line in lines:
            for run in runs:
                if re.search(rf"\b{re.escape(run.id)}\b", line):
                    run.why = line
                    run.parked.set()

    async def _judged(self, run: _Run) -> Trouble | None:
        try:
            await self._judge(run)
        except Broken as broken:
            return Trouble(run.case, f"run {run.id!r}: {broken}")
        return None

    async def _judge(self, run: _Run) -> None:
        if run.why:
            raise Broken(run.why)
        effects = self._effects(run.id)
        calls = set(run.outcome["calls"]) if run.error is None else set[str]()
        if run.expected is not None:
            found = {id: await self._seen(id, seen) for id, seen in run.expected.runs.items()}
            check_settled(run.expected, found, effects)
        elif run.error is not None:
            raise Broken(f"failed: {run.error!r}")
        else:
            assert run.handle is not None
            check_free(run.case, run.outcome, await run.handle.query("k"))
        check_executions(effects, calls)

    def _effects(self, id: str) -> list[Effect]:
        return [
            effect
            for effect in self._arena.log.read()
            if effect.what == "kill" or effect.run == id or effect.run.startswith(f"{id}.")
        ]

    async def _seen(self, id: str, expected: Seen) -> Seen:
        handle = self._arena.client.handle(id)
        states = {key: await handle.query(key) for key in expected.states}
        try:
            return Seen(common(await handle.result(timeout=60)), states)
        except FlowError as error:
            return Seen(common(error), states)
