"""Run the scenarios: `python -m iworkflow_lab.conformance [--engine E] [-k EXPR]`.

The last line says `n passed, n failed, n declared, n uncovered`, counting each selected scenario
once for each engine. The exit code is 0 only if nothing failed and nothing is uncovered. A
server that cannot be started is a failure.
"""

from __future__ import annotations

import argparse
import sys
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from iworkflow_lab.engines import ENGINES
from iworkflow_lab.report import Report
from iworkflow_lab.scenarios import select


def arguments(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    about = "run the scenarios on live engines, workers killed"
    parser = argparse.ArgumentParser(prog="conformance", description=about)
    parser.add_argument("--engine", action="append", choices=sorted(ENGINES), help="repeatable")
    parser.add_argument("-k", dest="expression", help='such as "D01 or (messages and not M15)"')
    parser.add_argument("--report", type=Path, default=default_report(), help="where JSON goes")
    return parser.parse_args(argv)


def default_report() -> Path:
    """Return `lab/report.json` in a source tree, else `report.json` here."""
    lab = Path(__file__).parents[2]
    return (lab if (lab / "pyproject.toml").exists() else Path()) / "report.json"


def main(argv: list[str]) -> int:
    """Run what is selected and return the exit code."""
    chosen = arguments(argv)
    try:
        selected = select(chosen.expression)
    except ValueError as error:
        print(error)
        return 2
    if not selected:
        print(f"no scenario fits {chosen.expression!r}")
        return 2
    engines = chosen.engine or list(ENGINES)
    report = Report(selected, engines)
    with as_file(files("iworkflow_lab") / "suite") as suite:
        code = pytest.main(_options(suite, chosen.expression, engines), plugins=[report])
    if code not in (
        pytest.ExitCode.OK,
        pytest.ExitCode.TESTS_FAILED,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        report.broken.append(f"pytest ended with {code!s}")
    report.write(chosen.report)
    report.show()
    print(f"\nreport: {chosen.report}")
    print(report.summary(), flush=True)
    return 0 if report.holds else 1


def _options(suite: Path, expression: str | None, engines: list[str]) -> list[str]:
    options = [str(suite), "-c", str(suite / "pytest.ini"), "--rootdir", str(suite)]
    options += ["-qq", "--no-header", "--no-summary", "--tb=short", "-p", "no:cacheprovider"]
    options += [f"--scenarios={expression}"] if expression else []
    return [*options, *(f"--engine={name}" for name in engines)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
