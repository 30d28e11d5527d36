"""What a run of the suite found, by scenario and engine."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from iworkflow_lab.scenarios import Scenario


class Status(StrEnum):
    """What is known of one scenario on one engine."""

    PASSED = "passed"
    FAILED = "failed"
    DECLARED = "declared"
    """The engine says that it cannot, why, and indeed it cannot."""
    UNCOVERED = "uncovered"
    """There is no test."""


@dataclass(slots=True)
class Cell:
    """One scenario on one engine."""

    scenario: str
    engine: str
    status: Status = Status.UNCOVERED
    reason: str = ""
    seconds: float = 0.0
    tests: int = 0
    kills: list[str] = field(default_factory=list[str])

    def add(self, status: Status, seconds: float) -> None:
        """Count one more test; the worst one decides."""
        self.tests += 1
        self.seconds += seconds
        if self.status is not Status.FAILED:
            self.status = status


class Report:
    """The matrix, as a pytest plugin: it fills itself and tells the progress."""

    def __init__(self, chosen: Iterable[Scenario], engines: Iterable[str]) -> None:
        names = list(engines)
        self.cells = {(s.id, e): Cell(s.id, e) for s in chosen for e in names}
        self.broken: list[str] = []
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._failed: set[str] = set()
        self._declared: set[str] = set()

    @pytest.hookimpl
    def pytest_report_teststatus(self) -> tuple[str, str, str]:
        """Keep pytest's own letters away."""
        return "", "", ""

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be imported breaks the run."""
        if report.failed:
            self.broken.append(report.nodeid)
            print(f"{report.nodeid} cannot be collected:\n{report.longreprtext}")

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the three phases of a test as one."""
        self._seconds[report.nodeid] += report.duration
        declared = report.skipped and hasattr(report, "wasxfail")
        if report.failed or (report.skipped and not declared):  # nothing is skipped silently
            self._failed.add(report.nodeid)
            print(f"\n{report.nodeid} ({report.when}):\n{report.longreprtext}")
            print("\n".join(f"{title}:\n{text}" for title, text in report.sections if text))
        if declared:
            self._declared.add(report.nodeid)
        if report.when == "teardown":
            self._settle(report, self._status(report.nodeid))

    def _status(self, test: str) -> Status:
        if test in self._failed:
            return Status.FAILED
        return Status.DECLARED if test in self._declared else Status.PASSED

    def _settle(self, report: pytest.TestReport, status: Status) -> None:
        about: dict[str, Any] = dict(report.user_properties)
        cell = self.cells[about["scenario"], about["engine"]]
        cell.add(status, self._seconds[report.nodeid])
        cell.reason = about.get("gap", "")
        kills = [line for line in report.capstdout.splitlines() if line.startswith("kill of ")]
        cell.kills += kills
        name = report.nodeid.rpartition("::")[2].removeprefix("test_")
        print(f"{status:9} {cell.engine:7} {self._seconds[report.nodeid]:6.1f} s  {name}")
        for line in kills:
            print(f"{'':27}  {line}")

    def counts(self) -> Counter[Status]:
        """Count the cells by status; what broke before it was a test counts as failed."""
        counted = Counter(cell.status for cell in self.cells.values())
        counted[Status.FAILED] += len(self.broken)
        return counted

    @property
    def holds(self) -> bool:
        """Whether nothing failed and nothing is uncovered."""
        counted = self.counts()
        return not counted[Status.FAILED] and not counted[Status.UNCOVERED]

    def summary(self) -> str:
        """Return the last line of a run."""
        counted = self.counts()
        return ", ".join(f"{counted[status]} {status}" for status in Status)

    def write(self, path: Path) -> None:
        """Write everything as JSON."""
        cells = list(self.cells.values())
        by_scenario: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for cell in cells:
            by_scenario[cell.scenario][cell.engine] = str(cell.status)
        gaps = [cell for cell in cells if cell.status is Status.DECLARED]
        data = {
            "engines": list(dict.fromkeys(cell.engine for cell in cells)),
            "scenarios": by_scenario,
            "declared": {f"{cell.scenario}/{cell.engine}": cell.reason for cell in gaps},
            "summary": {str(status): self.counts()[status] for status in Status},
            "cells": [asdict(cell) for cell in cells],
            "broken": self.broken,
        }
        path.write_text(json.dumps(data, indent=1) + "\n")

    def show(self) -> None:
        """Print what is not passed, grouped."""
        for status in (Status.UNCOVERED, Status.DECLARED, Status.FAILED):
            cells = [cell for cell in self.cells.values() if cell.status is status]
            if cells:
                print(f"\n{status}: " + ", ".join(f"{c.scenario}/{c.engine}" for c in cells))
            for reason in sorted({cell.reason for cell in cells} - {""}):
                print(f"  {reason}")
