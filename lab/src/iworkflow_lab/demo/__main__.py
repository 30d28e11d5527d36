"""See one process run in memory, on DBOS and on Temporal, workers killed, to the same outcome.

    python -m iworkflow_lab.demo [--folder FOLDER]

The flow is in `iworkflow_lab/demo/outreach.py`. The exit code is 1, after a diff, where the
engines differ, a letter is lost, or one is sent twice without a kill to excuse it; and where a
server or a worker does not start.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from iworkflow_lab.demo.play import Performance, play
from iworkflow_lab.demo.table import differences, faults, show
from iworkflow_lab.engines import ENGINES
from iworkflow_lab.processes import WorkerDied
from iworkflow_lab.servers import ServerError

ABOUT = "one process in memory, on DBOS and on Temporal, a worker killed, to the same outcome"
INTRODUCTION = """\
Twenty organisations are written to; each has a flow of its own: compose a letter, look the
organisation up (a flow of another app, in another worker), post the letter, wait two seconds
for a reply, remind who did not answer. The same flow runs first in memory, then on DBOS over a
real Postgres, then on a real Temporal server; on both the worker is killed halfway and started
again.
"""
TITLES = {
    "memory": "memory: everything in this process",
    "dbos": "dbos: worker processes over a Postgres of the lab's own",
    "temporal": "temporal: worker processes over a Temporal server of the lab's own",
}


def main(argv: list[str]) -> int:
    """Run the demo and return the exit code."""
    parser = argparse.ArgumentParser(prog="demo", description=ABOUT)
    parser.add_argument("--folder", type=Path, help="keep letters and logs there (a new folder)")
    folder = parser.parse_args(argv).folder
    print(INTRODUCTION)
    try:
        with tempfile.TemporaryDirectory(prefix="iwf-demo-") as scratch:
            performances = [_perform(name, (folder or Path(scratch)) / name) for name in TITLES]
    except KeyboardInterrupt:
        print("\ninterrupted; workers and servers are stopped")
        return 130
    except Halted as halted:
        print(f"\n{halted}")
        return 1
    return verdict(performances)


class Halted(RuntimeError):
    """A performance could not be brought to its end."""


def _perform(name: str, folder: Path) -> Performance:
    print(f"── {TITLES[name]} ".ljust(88, "─"))
    try:
        folder.mkdir(parents=True)
        performance = asyncio.run(play(ENGINES[name], folder))
    except (ServerError, WorkerDied, OSError) as error:
        raise Halted(f"the demo cannot go on with {name}: {_brief(error)}") from error
    show(performance)
    return performance


def _brief(error: Exception) -> str:
    """Return the first line and the last, where a traceback says what it is."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(dict.fromkeys([lines[0], lines[-1]])) if lines else type(error).__name__


def verdict(performances: Sequence[Performance]) -> int:
    """Print what the performances, memory's first, came to, and return the exit code."""
    memory, *others = performances
    wrong = [line for one in performances for line in faults(one)]
    for other in others:
        wrong += differences(memory, other)
        if not other.killed:
            wrong.append(f"{other.engine}: no worker was killed: the flows were over too soon")
    if wrong:
        print("\n".join(wrong))
        print("the engines differ, or one of them is wrong; see above")
        return 1
    *most, last = [one.engine for one in reversed(performances)]
    names = f"{', '.join(most)} and {last}"
    count = len(memory.rows)
    print(f"same outcome on {names}: {count} organisations, worker killed and resumed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
