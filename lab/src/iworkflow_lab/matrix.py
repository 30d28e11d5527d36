"""The matrix page: `hatch run lab:matrix [REPORT...]` writes `lab/CONFORMANCE.md`.

Reports of runs on one engine each are put together. What none of them has is `not run`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from iworkflow_lab.conformance import default_report
from iworkflow_lab.engines import ENGINES
from iworkflow_lab.report import Status
from iworkflow_lab.scenarios import Scenario, scenarios

NOT_RUN = "not run"
_HEAD = """# Conformance

One set of scenarios runs on every engine, with real workers that are really killed.
`hatch run lab:conformance` repeats it, and `hatch run lab:matrix` writes this page from its report.
A kill is a SIGKILL of a worker in the middle of a run; in memory, where there is no process, every
task of the worker is dropped at once.
"""

Cell = Mapping[str, Any]
Cells = Mapping[tuple[str, str], Cell]


def main(argv: Sequence[str]) -> int:
    """Write the page; 1 if a report cannot be read."""
    parser = argparse.ArgumentParser(prog="hatch run lab:matrix", description=__doc__)
    parser.add_argument("reports", nargs="*", type=Path, help="default: lab/report.json")
    parser.add_argument("--page", type=Path, help="where the page goes")
    chosen = parser.parse_args(argv)
    home = default_report()
    try:
        cells = read(chosen.reports or [home])
    except (OSError, ValueError, KeyError) as error:
        print(f"cannot read a report: {error}; run lab:conformance first", file=sys.stderr)
        return 1
    page: Path = chosen.page or home.with_name("CONFORMANCE.md")
    page.write_text(render(cells), encoding="utf-8")
    print(page)
    return 0


def read(reports: Iterable[Path]) -> Cells:
    """Put the cells of several reports together; of two of one cell the later counts."""
    cells: dict[tuple[str, str], Cell] = {}
    for report in reports:
        for cell in json.loads(report.read_text(encoding="utf-8"))["cells"]:
            cells[cell["scenario"], cell["engine"]] = cell
    return cells


def render(cells: Cells) -> str:
    """Return the page."""
    parts = [_HEAD, _totals(cells), _gaps(cells)]
    groups = dict.fromkeys(scenario.group for scenario in scenarios().values())
    parts += [_group(group, cells) for group in groups]
    return "\n".join(part for part in parts if part)


def _totals(cells: Cells) -> str:
    rows = [[name, *_counts(name, cells)] for name in ENGINES]
    return _table(["engine", *map(str, Status), "kills"], rows)


def _counts(engine: str, cells: Cells) -> list[str]:
    own = [cell for (_, name), cell in cells.items() if name == engine]
    counts = [sum(cell["status"] == status for cell in own) for status in Status]
    return [str(count) for count in [*counts, sum(len(cell["kills"]) for cell in own)]]


def _gaps(cells: Cells) -> str:
    reasons: dict[str, list[str]] = {}
    for (scenario, engine), cell in cells.items():
        if cell["status"] == Status.DECLARED:
            reasons.setdefault(cell["reason"], []).append(f"{scenario} on {engine}")
    lines = [f"- {', '.join(where)}: {reason}." for reason, where in reasons.items()]
    return "\n".join(["Declared:", "", *lines, ""]) if lines else ""


def _group(group: str, cells: Cells) -> str:
    rows = [_row(one, cells) for one in scenarios().values() if one.group == group]
    return f"## {group.capitalize()}\n\n" + _table(["", "claim", *ENGINES], rows)


def _row(scenario: Scenario, cells: Cells) -> list[str]:
    claim = scenario.claim.replace("|", "\\|")
    return [scenario.id, claim, *(_shown(cells.get((scenario.id, name))) for name in ENGINES)]


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return NOT_RUN
    kills = len(cell["kills"])
    return f"{cell['status']}, {kills} kill{'s' if kills > 1 else ''}" if kills else cell["status"]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
