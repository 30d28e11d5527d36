"""What a type hint says: its name for messages, and what is below its wrappers."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Final, Literal, NewType, NotRequired, Required, TypeVar, Union


class _NoHint:
    """The type of `ANY`."""

    def __repr__(self) -> str:
        return "ANY"

    def __reduce__(self) -> str:
        return "ANY"


ANY: Any = _NoHint()
"""No hint: plain JSON values. The hints `Any` and `object` mean the same."""

_WRAPPERS = {Annotated, Final, Required, NotRequired, getattr(typing, "ReadOnly", Annotated)}
_UNIONS = {Union, types.UnionType}


def unwrap(hint: Any) -> Any:
    """Take off what says nothing about the value: aliases, `NewType`, `Annotated`, `Required`."""
    while True:
        inner = _inside(hint)
        if inner is hint:
            return hint
        hint = inner


def _inside(hint: Any) -> Any:
    if hint is None:
        return types.NoneType
    if hint is Any or hint is object:
        return ANY
    if isinstance(hint, NewType):
        return hint.__supertype__
    if isinstance(hint, TypeVar):
        return hint if hint.__constraints__ else (hint.__bound__ or ANY)
    if is_alias(hint):
        return _alias_value(hint)
    if typing.get_origin(hint) in _WRAPPERS:
        return typing.get_args(hint)[0]
    return hint


def has_constraints(hint: Any) -> bool:
    """Whether the hint is an `Annotated` with a `msgspec.Meta`, below a `NewType` or not."""
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    notes = getattr(hint, "__metadata__", ())
    return any(type(note).__module__ == "msgspec" for note in notes)


def is_alias(hint: Any) -> bool:
    """Whether the hint was made by a `type` statement."""
    return type(typing.get_origin(hint) or hint).__name__ == "TypeAliasType"


def _alias_value(hint: Any) -> Any:
    arguments = typing.get_args(hint)
    return typing.get_origin(hint).__value__[arguments] if arguments else hint.__value__


is_a: Callable[[Any, Any], bool] = isinstance
"""`isinstance` that leaves the type checkers' view of a user's value alone."""

of_class: Callable[[Any], Any] = type
"""`type`, likewise."""


def origin(hint: Any) -> Any:
    """The class of a hint: `list` of `list[int]`, and a class is its own."""
    found = typing.get_origin(hint)
    if found in _UNIONS:
        return Union
    return hint if found is None else found


def arguments(hint: Any) -> tuple[Any, ...]:
    """What stands in the brackets of a hint."""
    return typing.get_args(hint)


def is_class(hint: Any, base: Any) -> bool:
    """Whether the hint is a class (no alias of one) below `base`."""
    return isinstance(hint, type) and issubclass(hint, base)


def is_enum(hint: Any) -> bool:
    """Whether the hint is an enum."""
    return is_class(hint, Enum)


def is_literal(hint: Any) -> bool:
    """Whether the hint is a `Literal`."""
    return typing.get_origin(hint) is Literal


def is_pydantic(hint: Any) -> bool:
    """Whether the hint is a pydantic model; pydantic is never imported for it."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and is_class(hint, pydantic.BaseModel)


def is_unset(cls: Any) -> bool:
    """Whether this is the class of `msgspec.UNSET`: a member that is left out."""
    return is_class(cls, object) and (cls.__module__, cls.__name__) == ("msgspec", "UnsetType")


def show(hint: Any) -> str:
    """Name a hint the way it is written in code."""
    if hint is ANY or hint is Any:
        return "Any"
    if hint is None or hint is types.NoneType:
        return "None"
    if typing.get_origin(hint) in _UNIONS:
        return " | ".join(show(member) for member in typing.get_args(hint))
    if isinstance(hint, str):
        return repr(hint)
    if isinstance(hint, typing.ForwardRef):
        return repr(hint.__forward_arg__)
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__qualname__.rpartition("<locals>.")[2]
    return _show_alias(hint)


def _show_alias(hint: Any) -> str:
    inner = typing.get_args(hint)
    if not inner or typing.get_origin(hint) is Annotated or is_literal(hint):
        return str(hint).replace("typing.", "")
    shown = ", ".join("..." if item is Ellipsis else show(item) for item in inner)
    return f"{show(typing.get_origin(hint))}[{shown}]"
