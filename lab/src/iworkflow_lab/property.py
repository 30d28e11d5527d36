"""`hatch run lab:property`: random asyncio programs, with crashes, on the memory engine."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from iworkflow.core.testing import RandomSchedule
from iworkflow_lab.programs.grammar import messages, programs
from iworkflow_lab.programs.interpreter import Node
from iworkflow_lab.programs.on_memory import check


def main() -> int:
    """Check as many programs as are asked for; 1 if one is broken, shrunk and printed."""
    parser = argparse.ArgumentParser(prog="hatch run lab:property", description=__doc__)
    parser.add_argument("--examples", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="repeats a run")
    args = parser.parse_args()
    print(f"{args.examples} random programs, --seed {args.seed}", flush=True)
    logging.disable(logging.CRITICAL)
    tally = Tally(args.examples)
    try:
        run_all(args.examples, args.seed, tally)
    except Exception as error:
        for note in getattr(error, "__notes__", []):
            print(note, file=sys.stderr)
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        print(f"{tally.programs} programs run, {tally.crashes} crashes")
        print("0 passed, 1 failed")
        return 1
    print(f"{tally.programs} programs, {tally.crashed} of them with {tally.crashes} crashes")
    print(f"{tally.programs} passed, 0 failed")
    return 0


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
        suppress_health_check=list(HealthCheck),
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
