"""`hatch run lab:property`: random asyncio programs, with crashes, in memory or on live engines."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from typing import Any

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from iworkflow.core.testing import RandomSchedule
from iworkflow_lab.engines import ENGINES
from iworkflow_lab.processes import WorkerDied
from iworkflow_lab.programs.cases import UNBOUNDED
from iworkflow_lab.programs.differential import KILLS, Disagreement, compare
from iworkflow_lab.programs.grammar import messages, programs
from iworkflow_lab.programs.on_memory import check
from iworkflow_lab.programs.tree import Node
from iworkflow_lab.servers import ServerError

MEMORY = "memory"


def main() -> int:
    """Check as many programs as are asked for; 1 if one is broken, shrunk and printed."""
    args = _arguments()
    print(f"{args.examples} random programs, --seed {args.seed}", flush=True)
    logging.disable(logging.CRITICAL)
    passed = 0
    for name in args.engine or [MEMORY]:
        good = (
            _in_memory(args.examples, args.seed)
            if name == MEMORY
            else _live(name, args.examples, args.seed, args.kills)
        )
        if not good:
            print(f"{passed} passed, 1 failed")
            return 1
        passed += good
    print(f"{passed} passed, 0 failed")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hatch run lab:property", description=__doc__)
    parser.add_argument("--examples", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="repeats a run")
    parser.add_argument(
        "--engine",
        action="append",
        choices=sorted(ENGINES),
        help="where; may be given more than once; in memory by default",
    )
    parser.add_argument(
        "--kills",
        choices=list(KILLS),
        default="half",
        help="how many of the programs on a live engine meet kills of their workers",
    )
    args = parser.parse_args()
    if args.examples < 1:
        parser.error("--examples must be above 0")
    return args


def _live(name: str, examples: int, seed_: int, kills: str) -> int:
    try:
        tally = asyncio.run(compare(ENGINES[name], examples, seed=seed_, kills=kills))
    except Disagreement as found:
        print(f"{found}\nrepeat it: --engine {name} --kills {kills} --seed {seed_}", flush=True)
        return 0
    except (ServerError, WorkerDied, OSError) as error:
        print(f"cannot go on with {name}: {error}", file=sys.stderr)
        return 0
    print(f"{tally.programs} programs on {name}, {tally.met} of them met {tally.kills} kills")
    return tally.programs


def _in_memory(examples: int, seed_: int) -> int:
    tally = Tally(examples)
    try:
        run_all(examples, seed_, tally)
    except Exception as error:
        for note in getattr(error, "__notes__", []):
            print(note, file=sys.stderr)
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        print(f"{tally.programs} programs run, {tally.crashes} crashes")
        return 0
    print(f"{tally.programs} programs, {tally.crashed} of them with {tally.crashes} crashes")
    return tally.programs


class Tally:
    """Counts, and shows how far it is."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.programs = 0
        self.crashed = 0
        self.crashes = 0

    def add(self, crashes: int) -> None:
        """Count one program."""
        self.programs += 1
        self.crashes += crashes
        self.crashed += crashes > 0
        if self.programs % 1000 == 0 and self.programs <= self.total:
            print(f"  {self.programs} programs, {self.crashes} crashes", flush=True)


def run_all(examples: int, seed_: int, tally: Tally) -> None:
    """Check `examples` programs."""

    @seed(seed_)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=UNBOUNDED,
        phases=[Phase.generate, Phase.shrink],
        print_blob=False,
    )
    @given(programs(), messages(), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.05, 0.2]))
    def one(program: Node, sent: Any, dice: int, crash_rate: float) -> None:
        schedule = RandomSchedule(dice, crash_rate=crash_rate)
        tally.add(asyncio.run(check(program, sent, schedule)))

    one()


if __name__ == "__main__":
    sys.exit(main())
