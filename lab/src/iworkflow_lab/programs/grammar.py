"""How random programs are built."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import strategies as st

from iworkflow_lab.programs.settled_grammar import settled_inner, settled_leaf
from iworkflow_lab.programs.tree import Node, bodies, holding

TOPICS = ("x", "y")
SECONDS = st.sampled_from([0.0, 0.5, 1.0, 3.0])


def _leaf() -> st.SearchStrategy[Node]:
    plain = st.sampled_from(["step", "step", "step", "step", "bad", "boom", "state", "state"])
    timed = st.fixed_dictionaries({"op": st.just("sleep"), "after": SECONDS})
    recv = st.fixed_dictionaries(
        {"op": st.just("recv"), "topic": st.sampled_from(TOPICS), "after": SECONDS}
    )
    return st.one_of(plain.map(lambda op: {"op": op}), timed, recv)


def _inner(child: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    body = st.lists(child, min_size=1, max_size=4)

    def many(op: str, **extra: st.SearchStrategy[Any]) -> st.SearchStrategy[Node]:
        return st.fixed_dictionaries({"op": st.just(op), "body": body, **extra})

    def one(op: str, **extra: st.SearchStrategy[Any]) -> st.SearchStrategy[Node]:
        return st.fixed_dictionaries({"op": st.just(op), "body": child, **extra})

    return st.one_of(
        many("seq"),
        many("seq"),
        many("gather", keep=st.booleans()),
        many("wait", first=st.booleans()),
        many("group", abort=st.booleans()),
        many("queue"),
        many("event"),
        many("semaphore"),
        one("timeout", after=SECONDS),
        one("cancel"),
        one("spawn"),
        one("forget"),
        one("race", topic=st.sampled_from(TOPICS)),
        one("finally"),
        one("generator", stop=st.integers(0, 3)),
        one("shield"),
    )


def numbered(program: Node) -> Node:
    """Give every node a `site` of its own."""
    sites = count(1)

    def walk(node: Node) -> Node:
        copy = {**node, "site": next(sites)}
        return holding(copy, [walk(child) for child in bodies(copy)])

    return walk(program)


def programs(
    max_leaves: int = 10, *, least: int = 1, settled: bool = False
) -> st.SearchStrategy[Node]:
    """Programs of up to about `max_leaves` leaves, every node with a `site` of its own.

    Args:
        max_leaves: how big they may be.
        least: of how many parts, one after the other, they are made at least.
        settled: whether their outcome is the same in whatever order things complete.
    """
    leaf, inner = (settled_leaf(), settled_inner) if settled else (_leaf(), _inner)
    tree = st.recursive(leaf, inner, max_leaves=max_leaves)
    if settled:
        tree = st.one_of(tree, tree.map(lambda body: {"op": "try", "body": body}))
    return st.lists(tree, min_size=least, max_size=least + 2).map(
        lambda body: numbered({"op": "seq", "body": body})
    )


def messages() -> st.SearchStrategy[list[tuple[float, str]]]:
    """When messages are sent, and on which topic."""
    return st.lists(st.tuples(SECONDS, st.sampled_from(TOPICS)), max_size=4)
