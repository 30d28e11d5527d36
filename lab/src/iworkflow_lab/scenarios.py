"""The list of scenarios, as data: the floor of the contract."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

from iworkflow_lab.capabilities import Capability

_TEST_NAME = re.compile(r"test_([A-Z]\d\d)_")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One claim about every engine that has what it needs."""

    id: str
    group: str
    claim: str
    needs: frozenset[Capability] = frozenset()

    @property
    def words(self) -> str:
        """What a selection is matched against."""
        return f"test_{self.id} {self.group} {self.claim}".lower()


@cache
def scenarios() -> Mapping[str, Scenario]:
    """Return every scenario by its id, in the order of the list."""
    data = tomllib.loads(files("iworkflow_lab").joinpath("scenarios.toml").read_text("utf-8"))
    listed = (_scenario(id, group, entry) for group in data for id, entry in data[group].items())
    return {scenario.id: scenario for scenario in listed}


def _scenario(id: str, group: str, entry: str | dict[str, Any]) -> Scenario:
    if isinstance(entry, str):
        return Scenario(id, group, entry)
    needs = cast("list[str]", entry["needs"])
    return Scenario(id, group, str(entry["claim"]), frozenset(map(Capability, needs)))


def scenario_of(test_name: str) -> str | None:
    """Return the id in the name of a test, such as `test_D01_gather_is_by_index`."""
    found = _TEST_NAME.match(test_name)
    return found and found.group(1)


def select(expression: str | None) -> list[Scenario]:
    """Return the scenarios that an expression such as `D01 or (messages and not M15)` selects.

    A word matches where it is part of the id, the group or the claim, in either case.

    Raises:
        ValueError: the expression is not made of words, `and`, `or`, `not` and parentheses.
    """
    if not expression:
        return list(scenarios().values())
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"cannot read the selection {expression!r}") from error
    return [scenario for scenario in scenarios().values() if _matches(tree, scenario.words)]


def _matches(tree: ast.expr, words: str) -> bool:
    match tree:
        case ast.BoolOp(op=ast.And()):
            return all(_matches(value, words) for value in tree.values)
        case ast.BoolOp(op=ast.Or()):
            return any(_matches(value, words) for value in tree.values)
        case ast.UnaryOp(op=ast.Not()):
            return not _matches(tree.operand, words)
        case ast.Name():
            return tree.id.lower() in words
        case _:
            raise ValueError(f"a selection has words, and, or, not; not {ast.unparse(tree)!r}")
