"""The members of a class as they stand in JSON, whatever sort of class it is."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Any, Literal, Union

from iworkflow.core.codec.hints import is_enum, is_literal, is_pydantic, of_class, origin, unwrap
from iworkflow.core.codec.layout import class_kind, layout

Choice = tuple[str, Any]
"""A value among few: its type's name (True is no 1) and itself."""


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a JSON object.

    `always` says that a Python writer never leaves it out, also where a reader may.
    """

    key: str
    name: str
    hint: Any
    required: bool
    always: bool
    default: Callable[[], Any] | None = None


def fields_of(hint: Any) -> tuple[Field, ...] | None:
    """List the members of a class; None if it is none that is written as a JSON object.

    Raises:
        TypeError: the hint of a member names what does not exist.
    """
    bare = unwrap(hint)
    if is_pydantic(bare):
        return _model_fields(bare)
    if class_kind(origin(bare)) is None:
        return None
    shape = layout(bare)
    if shape.as_array:
        return None
    tagged = () if shape.tag is None else (_tag(*shape.tag),)
    return (*tagged, *(_field(member) for member in shape.members))


def _field(member: Any) -> Field:
    required = bool(member.required) and member.default is None
    always = required or (member.default is not None and not _may_be_unset(member.hint))
    return Field(member.key, member.name, member.hint, required, always, member.default)


def _tag(key: str, value: str | int) -> Field:
    return Field(key, "", Literal[value], required=True, always=True)


def _may_be_unset(hint: Any) -> bool:
    members = typing.get_args(unwrap(hint)) if origin(unwrap(hint)) is Union else (hint,)
    return any(getattr(one, "__name__", "") == "UnsetType" for one in members)


def _model_fields(model: Any) -> tuple[Field, ...]:
    return tuple(
        Field(
            key=field.serialization_alias or field.alias or name,
            name=name,
            hint=field.annotation,
            required=field.is_required(),
            always=True,
        )
        for name, field in model.model_fields.items()
    )


def choices_of(hint: Any) -> frozenset[Choice] | None:
    """List the values that a hint allows, where they are few: `Literal`, enums, None."""
    bare = unwrap(hint)
    if is_literal(bare):
        return frozenset(_choice(value) for value in typing.get_args(bare))
    if is_enum(bare):
        return frozenset(_choice(member.value) for member in bare)
    if bare is NoneType:
        return frozenset({_choice(None)})
    if origin(bare) is Union:
        return _all_choices(typing.get_args(bare))
    return None


def _choice(value: Any) -> Choice:
    plain = value.value if isinstance(value, Enum) else value
    return of_class(plain).__name__, plain


def _all_choices(hints: tuple[Any, ...]) -> frozenset[Choice] | None:
    found = [choices_of(hint) for hint in hints]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    return frozenset(choice for one in known for choice in one)
