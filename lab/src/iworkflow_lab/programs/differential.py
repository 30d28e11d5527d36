"""Random programs on a live engine, many at a time, some of them with kills; memory is the oracle.

Every second program is settled (`settled`): memory says what it has to come to. Of the others,
whose outcome depends on what completes first, what always holds is checked.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from iworkflow_lab.engines.base import EngineLab
from iworkflow_lab.programs.cases import draw, smaller, told
from iworkflow_lab.programs.live import Lane, Tally, Trouble

BATCH = 25
"""Programs that share the workers: one kill meets many."""
DEADLY = (4, 5, 3)
"""How many kills the batches with kills have, in turn."""
SHRINK_SECONDS = 180.0
SHRINK_WIDTH = 24
"""How many smaller programs are tried at once."""
SHRINK_COPIES = 3
"""How often each, where it takes a kill at the right moment to break it."""
SHRINK_VAIN = 3
"""After how many tries for nothing a program is small enough."""

KILLS: Mapping[str, int] = {"none": 0, "half": 2, "all": 1}
"""Every how many batches one has kills; 0 for none."""


class Disagreement(AssertionError):
    """A program came to something else than it may."""


async def compare(lab: EngineLab, examples: int, *, seed: int, kills: str = "half") -> Tally:
    """Run so many programs, and say how it went.

    Raises:
        Disagreement: one is broken; the message has it, shrunk.
    """
    cases = draw(examples, seed)
    size = min(BATCH, -(-examples // 2))
    with lab.server(), tempfile.TemporaryDirectory(prefix="iwf-programs-") as folder:
        async with lab.arena(Path(folder)) as arena:
            lane = Lane(arena, seed=seed)
            for number, start in enumerate(range(0, examples, size)):
                some = cases[start : start + size]
                deadly = _deadly(number, kills)
                began = time.monotonic()
                troubles = await lane.batch(some, kills=deadly)
                _show(lab.name, lane.tally, deadly, time.monotonic() - began)
                if troubles:
                    raise Disagreement(await _shrunk(lane, troubles, deadly))
            return lane.tally


def _deadly(number: int, kills: str) -> int:
    every = KILLS[kills]
    if not every or number % every != every - 1:
        return 0
    return DEADLY[number // every % len(DEADLY)]


def _show(name: str, tally: Tally, kills: int, seconds: float) -> None:
    how = f"{kills} kills asked for" if kills else "no kills"
    print(f"  {name}: {tally.programs} programs; the last batch {seconds:.0f} s, {how}", flush=True)


async def _shrunk(lane: Lane, troubles: Sequence[Trouble], kills: int) -> str:
    """Make the smallest of the broken programs smaller for as long as it stays broken."""
    found = min(troubles, key=lambda trouble: trouble.case.size)
    print(f"  broken: {len(troubles)} programs; {found.why}\n{told(found.case)}", flush=True)
    deadline, vain = time.monotonic() + SHRINK_SECONDS, 0
    while vain < SHRINK_VAIN and time.monotonic() < deadline:
        tries = list(islice(smaller(found.case), SHRINK_WIDTH))
        copies = SHRINK_COPIES if kills else 1
        broken = await lane.batch(tries * copies, kills=kills) if tries else []
        vain += not broken
        found = min([found, *broken], key=lambda trouble: trouble.case.size)
    return f"{found.why}\n{told(found.case)}"
