"""What the parts of the walk share: its state, its refusals, its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from iworkflow.core.codec.hints import is_a, of_class, origin, show
from iworkflow.core.codec.scalars import Refused


@dataclass(slots=True)
class Walk:
    """One walk: what it is inside of, and whether it leaves out members at their default."""

    omit_defaults: bool = False
    inside: set[int] = field(default_factory=set[int])


Encoder = Callable[[Any, Walk], Any]
Find = Callable[[Any], Encoder]
"""Finds the encoder of a hint."""


def guarded(encode_inside: Encoder) -> Encoder:
    """Refuse a value that contains itself."""

    def encode_guarded(value: Any, walk: Walk) -> Any:
        key = id(value)
        if key in walk.inside:
            raise Refused(f"this {of_class(value).__name__} contains itself and cannot be encoded")
        walk.inside.add(key)
        try:
            return encode_inside(value, walk)
        finally:
            walk.inside.discard(key)

    return encode_guarded


def mismatch(hint: Any, value: Any) -> Refused:
    """Refuse a value of another class than its hint."""
    return Refused(f"expected {show(hint)}, got {class_name(value)}")


def class_name(value: Any) -> str:
    """Name the class of a value."""
    return show(of_class(value))


def subclass(hint: Any, value: Any) -> Refused:
    """Refuse a value that is not exactly of its hint's class."""
    cls = origin(hint)
    if not is_a(value, cls):
        return mismatch(hint, value)
    refused = Refused(
        f"expected {show(hint)}, got its subclass {class_name(value)}, "
        f"whose own members would be lost; give exactly a {show(hint)}, "
        "or hint a union of tagged Structs"
    )
    refused.more_than_class = True
    return refused


def encode_item(encoder: Encoder, item: Any, walk: Walk, step: str) -> Any:
    """Encode what is inside a value, one step of the path further down."""
    try:
        return encoder(item, walk)
    except Refused as refused:
        raise refused.below(step) from None
