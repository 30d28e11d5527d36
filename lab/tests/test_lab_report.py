"""The report: what counts as what."""

import json
from pathlib import Path

import pytest

from iworkflow_lab.report import Report, Status
from iworkflow_lab.scenarios import select


@pytest.fixture
def report() -> Report:
    return Report(select("D01 or D02"), ["memory", "dbos"])


def ran(report: Report, scenario: str, engine: str, **phases: str) -> None:
    """Tell the report of one test: how its phases went, and a gap where one is declared."""
    gap = phases.pop("gap", None)
    about = [("scenario", scenario), ("engine", engine), *([("gap", gap)] if gap else [])]
    for when in ("setup", "call", "teardown"):
        outcome = phases.get(when, "passed")
        one = pytest.TestReport(
            nodeid=f"test_x.py::test_{scenario}_y[{engine}]",
            location=("test_x.py", 1, "y"),
            keywords={},
            outcome=outcome,  # type: ignore[arg-type]
            longrepr=None,
            when=when,  # type: ignore[arg-type]
            user_properties=about,
        )
        if gap and outcome == "skipped":
            one.wasxfail = gap
        report.pytest_runtest_logreport(one)


def test_a_scenario_without_a_test_is_uncovered(report: Report) -> None:
    """It counts once for each engine, and the run does not hold."""
    ran(report, "D01", "memory")
    ran(report, "D01", "dbos")
    assert report.summary() == "2 passed, 0 failed, 0 declared, 2 uncovered"
    assert not report.holds


@pytest.mark.parametrize("phase", ["setup", "call", "teardown"])
def test_a_failure_in_any_phase_fails_the_scenario(report: Report, phase: str) -> None:
    """A server that cannot start fails in the setup, what is left running in the teardown."""
    ran(report, "D01", "dbos", **{phase: "failed"})
    assert report.cells["D01", "dbos"].status is Status.FAILED
    assert not report.holds


def test_one_failed_test_fails_the_scenario(report: Report) -> None:
    """Of several tests of one scenario the worst decides, in either order."""
    for outcomes in (("failed", "passed"), ("passed", "failed")):
        for outcome in outcomes:
            ran(report, "D01", "memory", call=outcome)
        assert report.cells["D01", "memory"].status is Status.FAILED


def test_a_declared_gap_is_no_failure(report: Report) -> None:
    """A gap that fails as declared is counted as such, with its reason."""
    ran(report, "D01", "memory", call="skipped", gap="there is no server")
    cell = report.cells["D01", "memory"]
    assert (cell.status, cell.reason) == (Status.DECLARED, "there is no server")


def test_a_declared_gap_that_passes_fails_the_run(report: Report) -> None:
    """Pytest reports a strict expected failure that passed as failed."""
    ran(report, "D01", "memory", call="failed", gap="there is no server")
    assert report.cells["D01", "memory"].status is Status.FAILED


def test_a_plain_skip_is_not_passed(report: Report) -> None:
    """No scenario is skipped silently: a skip fails it."""
    ran(report, "D01", "memory", call="skipped")
    ran(report, "D01", "dbos", setup="skipped")
    assert report.summary() == "0 passed, 2 failed, 0 declared, 2 uncovered"


def test_the_json_says_what_the_last_line_says(report: Report, tmp_path: Path) -> None:
    """The report has the matrix, the gaps with their reasons, the summary and every cell."""
    ran(report, "D01", "memory")
    ran(report, "D02", "dbos", call="skipped", gap="why not")
    report.write(tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["engines"] == ["memory", "dbos"]
    assert data["scenarios"] == {
        "D01": {"memory": "passed", "dbos": "uncovered"},
        "D02": {"memory": "uncovered", "dbos": "declared"},
    }
    assert data["declared"] == {"D02/dbos": "why not"}
    assert data["summary"] == {"passed": 1, "failed": 0, "declared": 1, "uncovered": 2}
    assert len(data["cells"]) == 4
