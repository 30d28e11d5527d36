"""Programs to compare: drawn from a seed, and made smaller once one of them is broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from iworkflow_lab.programs.grammar import messages, numbered, programs
from iworkflow_lab.programs.interpreter import Node
from iworkflow_lab.programs.settled_grammar import bodies

Messages = Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Case:
    """One program, and the messages that are sent to it."""

    program: Node
    settled: bool
    """Whether memory says what it has to come to; else only what always holds is checked."""
    messages: Messages = ()

    @property
    def size(self) -> int:
        """How many nodes it has."""
        return _size(self.program)


def draw(examples: int, seed_: int) -> list[Case]:
    """Draw so many cases, every second one settled; one seed gives one list."""
    cases: list[Case] = []
    free = st.tuples(programs(), messages())

    @seed(seed_)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(free, programs(settled=True))
    def one(drawn: Any, settled: Node) -> None:
        program, sent = drawn
        cases.append(Case(program, False, sent) if len(cases) % 2 else Case(settled, True))

    one()
    return cases[:examples]


def smaller(case: Case) -> Iterator[Case]:
    """Yield the cases that are a little smaller, the smallest first."""
    programs = [numbered(reduced) for reduced in _reduced(case.program)]
    for program in sorted(programs, key=_size):
        yield Case(program, case.settled, case.messages)
    for number in range(len(case.messages)):
        fewer = [m for n, m in enumerate(case.messages) if n != number]
        yield Case(case.program, case.settled, fewer)


def _reduced(node: Node) -> Iterator[Node]:
    body = node.get("body")
    if node["op"] != "hang" and body is not None and not _hangs(node):
        yield from bodies(node)
        yield {"op": "step"}
    if isinstance(body, dict):
        yield from ({**node, "body": small} for small in _reduced(body))
    elif isinstance(body, list):
        for number, child in enumerate(body):
            if len(body) > 1:
                yield {**node, "body": body[:number] + body[number + 1 :]}
            for small in _reduced(child):
                yield {**node, "body": [*body[:number], small, *body[number + 1 :]]}


def _hangs(node: Node) -> bool:
    return any(child["op"] == "hang" for child in bodies(node))


def _size(node: Node) -> int:
    return 1 + sum(map(_size, bodies(node)))


def told(case: Case) -> str:
    """Say what the program is, one node a line."""
    lines = [f"messages {list(case.messages)}"] if case.messages else []

    def tell(node: Node, depth: int) -> None:
        members = {name: value for name, value in node.items() if name not in ("op", "body")}
        said = " ".join(f"{name}={value}" for name, value in members.items())
        lines.append(f"{'  ' * depth}{node['op']} {said}")
        for child in bodies(node):
            tell(child, depth + 1)

    tell(case.program, 0)
    return "\n".join(lines)
