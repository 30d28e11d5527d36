"""Measure: `python -m iworkflow_lab.bench hop [--json]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from iworkflow_lab.bench.hop import hop

HOP = """\
a child in another app and a sequential step: iworkflow on DBOS ("ours") against bare DBOS at its
defaults ("raw"), in one run on one Postgres; milliseconds for one of each, and
ratio = raw / ours, that is, how many times faster ours is"""


def main(argv: list[str]) -> int:
    """Run a benchmark and print what it found."""
    parser = argparse.ArgumentParser(prog="bench")
    kinds = parser.add_subparsers(dest="kind", required=True)
    kind = kinds.add_parser("hop", help="a child in another app, a step", description=HOP)
    kind.add_argument("--json", action="store_true", help="print one line of JSON and nothing else")
    chosen = parser.parse_args(argv)
    found = asyncio.run(hop())
    print(json.dumps(found) if chosen.json else _table(found))
    return 0


def _table(found: dict[str, dict[str, float]]) -> str:
    lines = [f"{'':18}{'ours':>12}{'raw':>12}   raw / ours"]
    for name, row in found.items():
        title = name.replace("_", " ")
        lines.append(f"{title:18}{row['ours']:>9} ms{row['raw']:>9} ms   {row['ratio']:>10}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
