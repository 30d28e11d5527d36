"""The containers that the codec knows, and what they read back as."""

from __future__ import annotations

import typing
from collections import abc
from typing import Any, Literal

from iworkflow.core.codec.hints import ANY

Sort = Literal["list", "tuple", "set", "dict"]

_SORTS: dict[Any, Sort] = {
    list: "list",
    abc.Sequence: "list",
    abc.MutableSequence: "list",
    abc.Collection: "list",
    tuple: "tuple",
    set: "set",
    frozenset: "set",
    abc.Set: "set",
    abc.MutableSet: "set",
    dict: "dict",
    abc.Mapping: "dict",
    abc.MutableMapping: "dict",
}


def sort_of(kind: Any) -> Sort | None:
    """What a container's class reads back as; None if it is no container that the codec knows."""
    return _SORTS.get(kind) if isinstance(kind, abc.Hashable) else None


def arguments_of(hint: Any, sort: Sort) -> tuple[Any, ...]:
    """The hints of what is inside; those that are not given are `ANY`."""
    given = typing.get_args(hint)
    if given or (sort == "tuple" and typing.get_origin(hint) is tuple):
        return given
    return {"dict": (ANY, ANY), "tuple": (ANY, ...)}.get(sort, (ANY,))
