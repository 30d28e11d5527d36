"""The Mermaid text of a contract keeps to a grammar, whatever the names, and was really drawn."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iworkflow.contracts.diagram import diagram_of, visible


def _load() -> ModuleType:
    path = Path(__file__).with_name("diagrams.py")
    spec = importlib.util.spec_from_file_location("contracts_diagrams", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


diagrams = _load()

STATE = re.compile(r'    state "([^"\n]*)" as (s\d+)')
ARROW = re.compile(r"    (\[\*\]|s\d+) --> (\[\*\]|s\d+)")
LABEL = re.compile(r"(?:[^\W_]|[-.,()]|(?<=[^\W_]) (?=[^\W_])|(?<=[^\W_])_(?=[^\W_])|#\d+;)+")


def parsed(text: str) -> dict[str, Any]:
    """Read a diagram back, by a grammar stricter than Mermaid's own.

    A label may hold letters, digits, `-.,()`, single spaces and underscores between letters and
    digits, and entity codes: nothing that Mermaid, or the Markdown in its labels, gives a meaning.
    """
    lines = text.split("\n")
    assert (lines[0], lines[-1]) == ("stateDiagram-v2", "")
    names: dict[str, str] = {}
    arrows: list[tuple[str, str]] = []
    for line in lines[1:-1]:
        state, arrow = STATE.fullmatch(line), ARROW.fullmatch(line)
        if state is not None:
            assert not arrows, "states stand before arrows"
            assert LABEL.fullmatch(state[1]), state[1]
            assert state[2] == f"s{len(names)}"
            names[state[2]] = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), state[1])
        else:
            assert arrow is not None, line
            arrows.append((arrow[1], arrow[2]))
    ends = set(names) | {"[*]"}
    assert {end for pair in arrows for end in pair} <= ends
    return {"names": names, "arrows": arrows}


def check(manifest: dict[str, Any]) -> None:
    """What is read back is the manifest's graph."""
    found = parsed(diagram_of(manifest))
    named = [*manifest["states"], *manifest["outcomes"]]
    assert list(found["names"].values()) == [visible(name) for name in named]
    ids = dict(zip(named, found["names"], strict=True))
    starts = [manifest["start"]] if manifest["states"] else list(manifest["outcomes"])
    assert found["arrows"] == [
        *(("[*]", ids[name]) for name in starts),
        *(
            (ids[name], ids[after])
            for name, state in manifest["states"].items()
            for after in state["next"]
        ),
        *((ids[name], "[*]") for name in manifest["outcomes"]),
    ]


@pytest.mark.parametrize("number", range(4))
def test_the_corpus_keeps_to_the_grammar(number: int) -> None:
    """Long names, quotes, reserved words, Mermaid's own marks, any script."""
    check(diagrams.corpus()[number])


NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@settings(max_examples=200, deadline=None)
@given(st.lists(NAME, min_size=2, max_size=6, unique=True), st.data())
def test_any_names_keep_to_it(names: list[str], data: st.DataObject) -> None:
    """Whatever a state is called, the graph is read back."""
    cut = data.draw(st.integers(0, len(names) - 1))
    states = {
        name: data.draw(st.lists(st.sampled_from(names), unique=True)) for name in names[:cut]
    }
    check(diagrams.manifest(states, names[cut:]))


def test_a_browser_has_drawn_these_diagrams() -> None:
    """The nightly drawing has run for this version of the generator; else run it.

    `python packages/contracts/tests/diagrams.py` draws them and writes the stamp.
    """
    assert json.loads(diagrams.STAMP.read_text()) == diagrams.stamp()


@pytest.mark.parametrize(
    ("picture", "fault"),
    [
        ({"error": "Parse error"}, "diagram 0: Parse error"),
        ({"labels": ["a"], "edges": 3}, "diagram 0: 'b' is not drawn"),
        ({"labels": ["a", "b"], "edges": 2}, "diagram 0: 2 arrows are drawn, not 3"),
        ({"labels": ["a", "b", "c"], "edges": 3}, "diagram 0: 3 labels are drawn, not 2"),
    ],
)
def test_the_drawing_is_compared(picture: dict[str, Any], fault: str) -> None:
    """A picture that lacks a name or an arrow, or has one too many, is a fault."""
    small = diagrams.manifest({"a": ["b"]}, ["b"])
    assert diagrams.faults([small], [{"labels": ["a", "b", ""], "edges": 3}]) == []
    assert fault in diagrams.faults([small], [picture])
