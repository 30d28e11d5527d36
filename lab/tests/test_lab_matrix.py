"""The matrix page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from iworkflow_lab.engines import ENGINES
from iworkflow_lab.matrix import main
from iworkflow_lab.scenarios import scenarios

PAGE = Path(__file__).parents[1] / "CONFORMANCE.md"


def report(path: Path, *cells: tuple[str, str, str]) -> str:
    rows = [
        {"scenario": one, "engine": engine, "status": status, "reason": "no server", "kills": ["k"]}
        for one, engine, status in cells
    ]
    path.write_text(json.dumps({"cells": rows}))
    return str(path)


def test_reports_are_put_together(tmp_path: Path) -> None:
    """Each scenario has a row, each engine a column; the later report counts."""
    first = report(tmp_path / "1", ("D01", "dbos", "failed"), ("D02", "memory", "declared"))
    second = report(tmp_path / "2", ("D01", "dbos", "passed"))
    page = tmp_path / "page.md"
    assert main([first, second, "--page", str(page)]) == 0
    text = page.read_text()
    assert "passed, 1 kill |" in text
    assert "failed, 1 kill" not in text
    assert "- D02 on memory: no server." in text
    assert f"| {' | '.join(ENGINES)} |" in text


def test_a_report_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says what to run."""
    assert main([str(tmp_path / "none")]) == 1
    assert "run lab:conformance first" in capsys.readouterr().err


def test_the_committed_page_has_every_scenario() -> None:
    """A scenario that is new is on the page, with what it came to."""
    rows = re.findall(r"^\| ([A-Z]\d\d) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == list(scenarios())
