"""One performance of the demo, on one engine."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from iworkflow.core import Client, FlowError
from iworkflow_lab.capabilities import Capability
from iworkflow_lab.demo import outreach
from iworkflow_lab.demo.letters import posted
from iworkflow_lab.demo.model import Outcome
from iworkflow_lab.demo.town import SILENCE, Organisation, Town, organisations
from iworkflow_lab.effects import Effect
from iworkflow_lab.engines.base import Arena, EngineLab, Worker
from iworkflow_lab.until import until

OUTREACH = "iworkflow_lab.demo.outreach:app"
IPROFILE = "iworkflow_lab.demo.iprofile:app"
LIMIT = 50.0
"""Seconds that one performance may take."""


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one organisation."""

    name: str
    outcome: str
    expected: str
    """How the outcome has to begin."""
    steps: Counter[str]
    """Executions by step and end: `send end`, `look_up fail`, `send cut`."""
    letters: Counter[str]
    excused: bool = False
    """The kill fell between a letter and its record, so a second copy is to be expected."""

    @property
    def same(self) -> tuple[str, frozenset[str], frozenset[str]]:
        """What has to be the same on every engine."""
        finished = frozenset(step for step in self.steps if not step.endswith(" cut"))
        return self.outcome, finished, frozenset(self.letters)

    @property
    def copies(self) -> int:
        """How many letters lie there once too often."""
        return self.letters.total() - len(self.letters)


@dataclass(slots=True)
class Performance:
    """What one engine made of the demo."""

    engine: str
    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    killed: bool = False
    seconds: float = 0.0


class Stage:
    """Starts workers and flows, kills a worker halfway, and tells what goes on."""

    def __init__(self, lab: EngineLab, arena: Arena) -> None:
        self._lab = lab
        self._arena = arena
        self._everyone = organisations()
        self._town = Town(arena.client, arena.folder)
        self._began = time.monotonic()
        self._excused: set[str] = set()
        self._killed = False
        self._told = 0

    async def perform(self) -> Performance:
        """Run the whole demo and return what became of everyone."""
        profiles, worker = await asyncio.gather(*map(self._arena.worker, (IPROFILE, OUTREACH)))
        self._say(f"workers: ioutreach ({worker.name}), iprofile ({profiles.name})")
        target = outreach.app.target(outreach.outreach)
        start = self._arena.client.start
        await asyncio.gather(*(start(target, one.lead, id=one.run) for one in self._everyone))
        self._say(f"{len(self._everyone)} flows started, one for each organisation")
        await self._watch(worker)
        outcomes = await asyncio.gather(*(self._outcome(one) for one in self._everyone))
        rows = dict(zip((o.lead.code for o in self._everyone), outcomes, strict=True))
        seconds = time.monotonic() - self._began
        self._say("all flows have ended")
        return Performance(self._lab.name, rows, self._killed, seconds)

    async def _watch(self, worker: Worker) -> None:
        town = asyncio.create_task(self._town.live())
        try:
            await until(self._halfway, "half of the letters are posted", seconds=LIMIT, every=0.01)
            if Capability.PROCESSES not in self._lab.declared:
                await self._kill(worker)
            await until(self._over, "every flow of the demo ends", seconds=LIMIT, every=0.05)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {await self._left()}") from error
        finally:
            town.cancel()

    def _halfway(self) -> bool:
        self._tell()
        in_the_air = [e for e in self._arena.log.in_flight() if not e.run.endswith("-p")]
        return self._town.letters >= len(self._everyone) // 2 and len(in_the_air) >= 2

    async def _over(self) -> bool:
        self._tell()
        return not await self._arena.client.list(app="ioutreach", status="running")

    async def _left(self) -> str:
        running = await self._arena.client.list(status="running")
        ids = ", ".join(sorted(run.id for run in running))
        last = self._arena.printed().strip().splitlines()[-3:]
        return f"still running: {ids}; last in the workers' log: {' / '.join(last) or 'nothing'}"

    def _tell(self) -> None:
        if self._town.letters >= self._told + 5:
            self._told = self._town.letters
            self._say(f"{self._told:2} letters posted, {self._town.replies:2} replies")

    async def _kill(self, worker: Worker) -> None:
        self._killed = True
        await worker.kill()
        found = await asyncio.gather(*(self._met(one.run) for one in self._everyone))
        recorded, flying = (sum(column) for column in zip(*found, strict=True))
        self._say(f"SIGKILL of ioutreach ({worker.name}), and it is gone:")
        self._say(f"  {recorded} operations were recorded, {flying} steps were in flight")
        again = await self._arena.worker(OUTREACH)
        self._say(f"ioutreach started again ({again.name})")

    async def _met(self, run: str) -> tuple[int, int]:
        """Return what the kill met in a run: operations recorded, steps in flight."""
        ended, in_flight = self._arena.log.at_kill(run)
        if in_flight or len(ended) > await self._arena.store.steps(run):
            self._excused.add(run)
        return await self._arena.store.operations(run), len(in_flight)

    async def _outcome(self, one: Organisation) -> Row:
        steps = self._steps(one.run) + self._steps(f"{one.run}-p")
        letters = [letter for letter in posted(self._arena.folder) if _run(letter) == one.run]
        text = await _text(self._arena.client, one)
        kinds = Counter(letter.rpartition(".")[2] for letter in letters)
        return Row(one.lead.name, text, one.expected, steps, kinds, one.run in self._excused)

    def _steps(self, run: str) -> Counter[str]:
        open_calls: dict[str, Effect] = {}
        counted: Counter[str] = Counter()
        for effect in self._arena.log.read(run):
            if effect.what == "begin":
                open_calls[effect.call] = effect
            elif effect.what != "kill":
                counted[f"{effect.step} {effect.what}"] += 1
                open_calls.pop(effect.call, None)
        return counted + Counter(f"{effect.step} cut" for effect in open_calls.values())

    def _say(self, text: str) -> None:
        print(f"  {time.monotonic() - self._began:5.1f} s  {text}", flush=True)


def _run(letter: str) -> str:
    return letter.rpartition(".")[0]


async def _text(client: Client, one: Organisation) -> str:
    handle = client.handle(one.run)
    try:
        outcome = await handle.result(result_type=Outcome, timeout=5)
    except FlowError as error:
        text = f"{error.reason} ({error.type})"
        return text if text == one.expected else f"{text}: {error}"
    status = await handle.query("status")
    if status != {"reply": outcome.reply}:
        return f"state {status!r} does not fit {outcome!r}"
    about = f"{outcome.profile.kind}, {outcome.profile.members} members"
    return f"{outcome.reply or SILENCE} ({about})"


async def play(lab: EngineLab, folder: Path) -> Performance:
    """Perform the demo on one engine, in a folder that is there, its server held meanwhile."""
    with lab.server():
        async with lab.arena(folder) as arena:
            return await Stage(lab, arena).perform()
