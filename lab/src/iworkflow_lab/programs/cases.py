"""Programs to compare: drawn from a seed, and made smaller once one of them is broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from iworkflow_lab.programs.grammar import messages, numbered, programs
from iworkflow_lab.programs.tree import Node, bodies, holding

UNBOUNDED = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
"""What Hypothesis is not to complain about."""

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
    free = st.tuples(programs(15, least=2), messages())

    @seed(seed_)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=UNBOUNDED,
        phases=[Phase.generate],
    )
    @given(free, programs(15, least=2, settled=True))
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
    inside = bodies(node)
    if inside and not _hangs(node):
        yield from inside
        yield {"op": "step"}
    for number, child in enumerate(inside):
        before, after = inside[:number], inside[number + 1 :]
        if before or after:
            yield holding(node, [*before, *after])
        for small in _reduced(child):
            yield holding(node, [*before, small, *after])


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
