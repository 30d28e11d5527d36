"""What the programs of `settled` are made of, and which messages they wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from iworkflow_lab.programs.settled import FOREVER, topic_of
from iworkflow_lab.programs.tree import Node, bodies, holding

SHORT = st.sampled_from([0.0, 0.1, 0.4])
_PLAIN = ["step"] * 4 + ["thread", "thread", "flaky", "bad", "boom", "state", "state", "patched"]


def settled_leaf() -> st.SearchStrategy[Node]:
    """What has no body but what is cancelled in it."""
    counts = st.integers(1, 3)
    return st.one_of(
        st.sampled_from(_PLAIN).map(lambda op: {"op": op}),
        _node("sleep", after=SHORT),
        _node("silent", after=SHORT),
        _node("recv", count=counts, after=SHORT),
        _node("overtaken", count=st.just(1), after=SHORT),
        _node("mail", count=counts),
        _node("pick", body=_hangs()),
        _node("abort", body=_hangs()),
    )


def settled_inner(child: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """What holds other nodes."""
    body = st.lists(child, min_size=1, max_size=4)
    alone = child.map(without_mail_from_outside)
    return st.one_of(
        _node("seq", body=body),
        _node("gather", body=body, keep=st.booleans()),
        _node("gather", body=body, keep=st.booleans()),
        *(_node(op, body=body) for op in ("group", "completed", "queue", "event", "semaphore")),
        *(_node(op, body=child) for op in ("try", "spawn", "shield", "finally")),
        _node("timeout", body=child, after=st.sampled_from([0.0, FOREVER])),
        _node("generator", body=alone, stop=st.integers(1, 4)),
        _node("child", body=alone, start=st.booleans()),
    )


def _node(op: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[Node]:
    return st.fixed_dictionaries({"op": st.just(op), **members})


def _hangs() -> st.SearchStrategy[list[Node]]:
    return st.lists(_node("hang", cleanup=st.booleans()), min_size=1, max_size=2)


def without_mail_from_outside(node: Node) -> Node:
    """Let what may run in a child, or more than once, send its messages to itself."""
    if node["op"] in ("recv", "overtaken"):
        return {"op": "mail", "count": node["count"]}
    return holding(node, [without_mail_from_outside(child) for child in bodies(node)])


def mail_for(program: Node) -> list[tuple[float, str, str]]:
    """Return what has to be sent to the program: when, on which topic, which value."""
    return sorted(_mail(program), key=lambda sent: sent[0])


def _mail(node: Node) -> Iterator[tuple[float, str, str]]:
    if node["op"] in ("recv", "overtaken"):
        for number in range(node["count"]):
            yield node["after"] * (number + 1), topic_of(node), f"{topic_of(node)}-{number}"
    for child in bodies(node):
        yield from _mail(child)
