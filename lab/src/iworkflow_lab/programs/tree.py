"""A program is a tree of nodes, plain JSON: `{"op": ..., "body": ...}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

Node = dict[str, Any]
"""A node; its body, if it has one, is a node or a list of nodes."""


def bodies(node: Node) -> list[Node]:
    """Return the nodes inside a node."""
    body: Any = node.get("body", [])
    return [cast("Node", body)] if isinstance(body, dict) else cast("list[Node]", body)


def holding(node: Node, inside: Sequence[Node]) -> Node:
    """Return the node with other nodes inside, as many as it may have."""
    if "body" not in node:
        return node
    return {**node, "body": inside[0] if isinstance(node["body"], dict) else list(inside)}
