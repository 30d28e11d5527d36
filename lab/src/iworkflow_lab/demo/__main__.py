"""See one process run in memory and on DBOS, a worker killed halfway, to the same outcome.

    python -m iworkflow_lab.demo [--folder FOLDER]

The flow is in `iworkflow_lab/demo/outreach.py`. The exit code is 1, after a diff, where the
engines differ, a letter is lost, or one is sent twice without a kill to excuse it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from iworkflow_lab.demo.play import Performance, play
from iworkflow_lab.demo.table import differences, faults, show
from iworkflow_lab.engines import ENGINES

ABOUT = "one process in memory and on DBOS, a worker killed halfway, to the same outcome"
INTRODUCTION = """\
Twenty organisations are written to; each has a flow of its own: compose a letter, look the
organisation up (a flow of another app, in another worker), post the letter, wait two seconds
for a reply, remind who did not answer. The same flow runs first in memory, then on DBOS over a
real Postgres, where the worker is killed halfway and started again.
"""
TITLES = {
    "memory": "memory: everything in this process",
    "dbos": "dbos: worker processes over a Postgres of the lab's own",
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
        print("\ninterrupted; workers and server are stopped")
        return 130
    return _verdict(*performances)


def _perform(name: str, folder: Path) -> Performance:
    print(f"── {TITLES[name]} ".ljust(88, "─"))
    folder.mkdir(parents=True)
    performance = asyncio.run(play(ENGINES[name], folder))
    show(performance)
    return performance


def _verdict(memory: Performance, dbos: Performance) -> int:
    wrong = [*faults(memory), *faults(dbos), *differences(memory, dbos)]
    if not dbos.killed:
        wrong.append("dbos: the worker was not killed: the flows were over too soon")
    if wrong:
        print("\n".join(wrong))
        print("the engines differ, or one of them is wrong; see above")
        return 1
    count = len(memory.rows)
    print(f"same outcome on dbos and memory: {count} organisations, worker killed and resumed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
