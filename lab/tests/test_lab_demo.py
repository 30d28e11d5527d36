"""The demo's verdict: what it lets pass and what it does not."""

from collections import Counter
from dataclasses import replace

import pytest

from iworkflow_lab.demo.iprofile import register
from iworkflow_lab.demo.play import Performance, Row
from iworkflow_lab.demo.table import differences, faults
from iworkflow_lab.demo.town import REFUSAL, SILENCE, organisations

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
