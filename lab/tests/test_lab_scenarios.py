"""The list of scenarios, how it is selected from, and its tests."""

import ast
from importlib.resources import files
from pathlib import Path

import pytest

from iworkflow_lab.scenarios import scenario_of, scenarios, select

SUITE = Path(str(files("iworkflow_lab"))) / "suite"


def suite_tests() -> dict[str, str | None]:
    """Return every test of the suite with its docstring."""
    found: dict[str, str | None] = {}
    for module in SUITE.glob("test_*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("test_"):
                found[node.name] = ast.get_docstring(node)
    return found


def test_every_test_of_the_suite_is_of_a_listed_scenario() -> None:
    """A test that bears no listed id would be counted nowhere."""
    strays = [name for name in suite_tests() if scenario_of(name) not in scenarios()]
    assert strays == []


def test_every_test_of_the_suite_states_its_claim() -> None:
    """A docstring is the claim."""
    assert [name for name, claim in suite_tests().items() if not claim] == []


def test_no_test_of_the_suite_reads_the_name_of_an_engine() -> None:
    """What an engine lacks is a capability; its name decides nothing."""
    texts = {module.name: module.read_text().lower() for module in SUITE.glob("test_*.py")}
    assert [name for name, text in texts.items() if "dbos" in text or "temporal" in text] == []


FLOOR = {"S": 26, "C": 13, "M": 19, "Q": 7, "T": 8, "V": 9, "L": 17, "F": 23, "N": 8, "D": 14}


def test_the_list_is_no_shorter_than_its_floor() -> None:
    """Scenarios may be added; none is ever dropped but L05, which never was."""
    floor = {f"{letter}{n:02}" for letter, last in FLOOR.items() for n in range(1, last + 1)}
    assert floor - set(scenarios()) == {"L05"}


@pytest.mark.parametrize(
    ("expression", "ids"),
    [
        ("D01", ["D01"]),
        ("d01 or D14", ["D01", "D14"]),
        ("faults and (F12 or F01) and not F01", ["F12"]),
        ("D01 and D02", []),
        ("test_K01 or test_D14", ["D14", "K01"]),
    ],
)
def test_a_selection_is_by_words(expression: str, ids: list[str]) -> None:
    """Words match id, group and claim, whatever their case."""
    assert [scenario.id for scenario in select(expression)] == ids


def test_no_selection_is_everything() -> None:
    """A run without -k is about the whole list, covered or not."""
    assert len(select(None)) == len(scenarios())


@pytest.mark.parametrize("expression", ["D01 or", "D01 + D02", "f(D01)", "1"])
def test_a_selection_that_cannot_be_read_is_refused(expression: str) -> None:
    """Anything but words, and, or, not is an error, never an empty selection."""
    with pytest.raises(ValueError, match="selection"):
        select(expression)
