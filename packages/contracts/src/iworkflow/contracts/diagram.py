"""The states of a manifest as a Mermaid state diagram.

Names never stand in Mermaid's own syntax: states are `s0`, `s1`, ..., and a name is a quoted
label in which everything but letters, digits and a few marks is an entity code. So reserved
words, quotes and line ends are names like any other.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

GENERATOR_VERSION = 1
"""Counts the changes of the diagrams' text; a browser must have drawn those of each version."""

_PLAIN = frozenset("-.,()")


def diagram_of(manifest: Mapping[str, Any]) -> str:
    """Draw the states, from the start to the outcomes, where the process ends."""
    states: Mapping[str, Any] = manifest["states"]
    outcomes: Mapping[str, Any] = manifest["outcomes"]
    ids = {name: f"s{number}" for number, name in enumerate([*states, *outcomes])}
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{escaped(name)}" as {id}' for name, id in ids.items()]
    starts = [manifest["start"]] if states else list(outcomes)
    lines += [f"    [*] --> {ids[name]}" for name in starts]
    for name, state in states.items():
        lines += [f"    {ids[name]} --> {ids[after]}" for after in state["next"]]
    lines += [f"    {ids[name]} --> [*]" for name in outcomes]
    return "\n".join(lines) + "\n"


def visible(name: str) -> str:
    r"""The name as it is drawn: control characters as their escapes, such as `\\n`."""
    return "".join(repr(one)[1:-1] if unicodedata.category(one) == "Cc" else one for one in name)


def escaped(name: str) -> str:
    """Write a name as the text of a label."""
    name = visible(name)
    framed = f" {name} "
    around = zip(framed, name, framed[2:], strict=False)
    return "".join(
        one if _is_plain(before, one, after) else f"#{ord(one)};" for before, one, after in around
    )


def _is_plain(before: str, one: str, after: str) -> bool:
    """Whether a character may stand as it is.

    Mermaid strips spaces at the ends and folds others, and reads `_x_` as emphasis: both only
    stand between letters and digits.
    """
    if one in " _":
        return before.isalnum() and after.isalnum()
    return one in _PLAIN or one.isalnum()
