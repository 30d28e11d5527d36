"""The walk that turns a value into JSON, led by its hint.

It is our own, so that every engine gets the same JSON: sets are sorted, members stand in
declaration order, and whatever would not come back equal is refused before the engine hears of
it. It needs nothing but the standard library.
"""

from __future__ import annotations

import typing
from enum import Enum
from functools import lru_cache, partial
from types import NoneType
from typing import Any, Union, cast

from iworkflow.core.codec.containers import sort_of
from iworkflow.core.codec.contents import container, set_encoder
from iworkflow.core.codec.decode import convert
from iworkflow.core.codec.hints import (
    ANY,
    has_constraints,
    is_enum,
    is_literal,
    is_pydantic,
    is_unset,
    of_class,
    origin,
    show,
    unwrap,
)
from iworkflow.core.codec.layout import UnresolvedHint, class_kind
from iworkflow.core.codec.members import encode_object
from iworkflow.core.codec.models import dump_model
from iworkflow.core.codec.scalars import FORMS, Refused, plain
from iworkflow.core.codec.walk import Encoder, Walk, guarded, mismatch, subclass
from iworkflow.core.jsonvalue import JsonValue


def encode(value: object, hint: object = ANY, *, where: str) -> JsonValue:
    """Turn a value into the JSON from which `decode` with the same hint builds an equal one.

    Without a hint the value is encoded by its own class, and comes back as plain JSON: a
    dataclass as a dict, a tuple as a list. What is nested some hundred levels deep is refused.

    Args:
        value: never changed, and shares nothing with the result.
        hint: the type that the value will be read as.
        where: begins the message, such as `step 'compose': lead`; the path is added to it.

    Raises:
        TypeError: the value does not fit the hint, or would not come back equal. Names
            `where`, the path and the type.
    """
    return _run(value, hint, Walk(), where)


def encode_terse(value: object, hint: object = ANY, *, where: str) -> JsonValue:
    """Encode for a fingerprint: members equal to their declared default are left out."""
    return _run(value, hint, Walk(omit_defaults=True), where)


def _run(value: object, hint: object, walk: Walk, where: str) -> JsonValue:
    try:
        return cast("JsonValue", _encoder(hint)(value, walk))
    except Refused as refused:
        path = refused.where()
        value_of = "" if not path or where[-1:].isalnum() else ": value"
        raise TypeError(f"{where}{value_of}{path}: {refused.message}") from None
    except UnresolvedHint as error:
        raise TypeError(f"{where}: {error}") from None
    except RecursionError:
        raise TypeError(f"{where}: {of_class(value).__name__} is nested too deeply") from None


def _encoder(hint: Any) -> Encoder:
    try:
        return _cached(hint)
    except TypeError:  # the hint is not hashable
        return _build(hint)


@lru_cache(maxsize=4096)
def _cached(hint: Any) -> Encoder:
    return _build(hint)


def _build(hint: Any) -> Encoder:
    bare = unwrap(hint)
    encoder = _build_bare(bare)
    return partial(_constrained, hint, encoder) if has_constraints(hint) else encoder


def _constrained(hint: Any, encoder: Encoder, value: Any, walk: Walk) -> Any:
    """Encode a value whose hint carries a `msgspec.Meta`: reading it back must succeed."""
    encoded = encoder(value, walk)
    try:
        convert(encoded, hint)
    except ValueError as error:
        raise Refused(str(error).replace("`", "")) from None
    return encoded


def _build_bare(hint: Any) -> Encoder:
    kind = origin(hint)
    if hint is ANY:
        return _any
    if hint in FORMS:
        return _scalar(hint)
    if kind is Union:
        return _union(hint)
    if is_literal(hint):
        return partial(_literal, hint)
    if is_enum(hint):
        return partial(_enum, hint)
    if is_pydantic(hint):
        return guarded(partial(_model, hint))
    if class_kind(kind):
        return guarded(partial(encode_object, _encoder, hint, kind))
    if (sort := sort_of(kind)) is not None:
        return container(_encoder, hint, sort)
    if is_unset(hint):
        return partial(_unset, hint)
    raise Refused(f"the codec does not know the hint {show(hint)}")


# Single values


def _scalar(cls: type) -> Encoder:
    form = FORMS[cls]

    def scalar(value: Any, walk: Walk) -> Any:
        if of_class(value) is cls:
            return form(value)
        if cls in (bool, NoneType, memoryview):
            raise mismatch(cls, value)
        return form(plain(value, cls))

    return scalar


def _unset(hint: Any, value: Any, walk: Walk) -> Any:
    raise mismatch(hint, value)


def _enum(cls: type[Enum], value: Any, walk: Walk) -> Any:
    if of_class(value) is not cls:
        raise mismatch(cls, value)
    return _any(value.value, walk)


def _literal(hint: Any, value: Any, walk: Walk) -> Any:
    if not _is_one_of(hint, value):
        raise Refused(f"expected {show(hint)}, got {value!r:.80}")
    return value


def _is_one_of(hint: Any, value: Any) -> bool:
    return any(of_class(value) is type(one) and value == one for one in typing.get_args(hint))


def _model(cls: type, value: Any, walk: Walk) -> Any:
    if of_class(value) is not cls:
        raise subclass(cls, value)
    return _any(dump_model(value, terse=walk.omit_defaults), walk)


# No hint


def _any(value: Any, walk: Walk) -> Any:
    """Encode by the value's own class."""
    if is_enum(of_class(value)):
        return _any(value.value, walk)
    return _own(of_class(value))(value, walk)


@lru_cache(maxsize=4096)
def _own(cls: type) -> Encoder:
    if cls in FORMS or class_kind(cls) or is_pydantic(cls):
        return _build(cls)
    if issubclass(cls, set | frozenset):
        return guarded(set_encoder(cls, _any, hashable=False))
    bases: list[Any] = [list, tuple, dict, *FORMS]
    below = [base for base in bases if issubclass(cls, base)]
    return _build(below[0]) if below else _unknown


def _unknown(value: Any, walk: Walk) -> Any:
    raise Refused(f"cannot encode an object of type {_full_name(of_class(value))}")


def _full_name(cls: type) -> str:
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


# Unions


def _union(hint: Any) -> Encoder:
    members = [unwrap(member) for member in typing.get_args(hint)]
    if ANY in members:
        return _any
    literals = [member for member in members if is_literal(member)]
    by_class = {origin(member): _encoder(member) for member in members if not is_literal(member)}

    def union(value: Any, walk: Walk) -> Any:
        if any(_is_one_of(literal, value) for literal in literals):
            return value
        exact = by_class.get(of_class(value))
        if exact is not None:
            return exact(value, walk)
        return _first_that_takes(hint, list(by_class.values()), value, walk)

    return union


def _first_that_takes(hint: Any, encoders: list[Encoder], value: Any, walk: Walk) -> Any:
    refusals: list[Refused] = []
    for encoder in encoders:
        try:
            return encoder(value, walk)
        except Refused as refused:
            refusals.append(refused)
    inner = [refused for refused in refusals if refused.path or refused.more_than_class]
    raise inner[0] if inner else mismatch(hint, value)
