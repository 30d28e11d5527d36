"""The walk that turns a value into JSON, led by its hint.

It is our own, so that every engine gets the same JSON: sets are sorted, members stand in
declaration order, and whatever would not come back equal is refused before the engine hears of
it. It needs nothing but the standard library.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache, partial
from types import NoneType
from typing import Any, Union, cast

from iworkflow.core.codec.containers import Sort, arguments_of, sort_of
from iworkflow.core.codec.decode import convert
from iworkflow.core.codec.digest import dumps
from iworkflow.core.codec.hints import (
    ANY,
    has_constraints,
    is_a,
    is_enum,
    is_literal,
    is_pydantic,
    is_unset,
    of_class,
    origin,
    show,
    unwrap,
)
from iworkflow.core.codec.layout import Layout, Member, UnresolvedHint, class_kind, layout
from iworkflow.core.codec.models import dump_model
from iworkflow.core.codec.scalars import FORMS, Refused, plain
from iworkflow.core.jsonvalue import JsonValue


@dataclass(slots=True)
class Walk:
    """One walk: what it is inside of, and whether it leaves out members at their default."""

    omit_defaults: bool = False
    inside: set[int] = field(default_factory=set[int])


Encoder = Callable[[Any, Walk], Any]


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
        return _guarded(partial(_model, hint))
    if class_kind(kind):
        return _guarded(partial(_object, hint, kind))
    if (sort := sort_of(kind)) is not None:
        return _container(hint, sort)
    if is_unset(hint):
        return partial(_unset, hint)
    raise Refused(f"the codec does not know the hint {show(hint)}")


def _guarded(encode_inside: Encoder) -> Encoder:
    def guarded(value: Any, walk: Walk) -> Any:
        key = id(value)
        if key in walk.inside:
            raise Refused(f"this {of_class(value).__name__} contains itself and cannot be encoded")
        walk.inside.add(key)
        try:
            return encode_inside(value, walk)
        finally:
            walk.inside.discard(key)

    return guarded


def _mismatch(hint: Any, value: Any) -> Refused:
    return Refused(f"expected {show(hint)}, got {_name(value)}")


def _name(value: Any) -> str:
    return show(of_class(value))


# Single values


def _scalar(cls: type) -> Encoder:
    form = FORMS[cls]

    def scalar(value: Any, walk: Walk) -> Any:
        if of_class(value) is cls:
            return form(value)
        if cls in (bool, NoneType, memoryview):
            raise _mismatch(cls, value)
        return form(plain(value, cls))

    return scalar


def _unset(hint: Any, value: Any, walk: Walk) -> Any:
    raise _mismatch(hint, value)


def _enum(cls: type[Enum], value: Any, walk: Walk) -> Any:
    if of_class(value) is not cls:
        raise _mismatch(cls, value)
    return _any(value.value, walk)


def _literal(hint: Any, value: Any, walk: Walk) -> Any:
    if not _is_one_of(hint, value):
        raise Refused(f"expected {show(hint)}, got {value!r:.80}")
    return value


def _is_one_of(hint: Any, value: Any) -> bool:
    return any(of_class(value) is type(one) and value == one for one in typing.get_args(hint))


def _model(cls: type, value: Any, walk: Walk) -> Any:
    if of_class(value) is not cls:
        raise _subclass(cls, value)
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
        return _guarded(_set(cls, (ANY,)))
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
    raise inner[0] if inner else _mismatch(hint, value)


# Classes with members


def _object(hint: Any, cls: type, value: Any, walk: Walk) -> Any:
    shape = layout(hint)
    if shape.kind == "typeddict":
        return _typeddict(hint, shape, value, walk)
    if of_class(value) is not cls:
        raise _subclass(hint, value)
    if shape.as_array:
        return _positional(shape, value, walk)
    data: dict[str, Any] = {} if shape.tag is None else {shape.tag[0]: shape.tag[1]}
    data.update(_named(shape, value, walk))
    return data


def _subclass(hint: Any, value: Any) -> Refused:
    cls = origin(hint)
    if not is_a(value, cls):
        return _mismatch(hint, value)
    refused = Refused(
        f"expected {show(hint)}, got its subclass {_name(value)}, whose own members would be lost; "
        f"give exactly a {show(hint)}, or hint a union of tagged Structs"
    )
    refused.more_than_class = True
    return refused


def _named(shape: Layout, value: Any, walk: Walk) -> Iterator[tuple[str, Any]]:
    for member in shape.members:
        item = _attribute(value, member)
        if is_unset(type(item)):
            continue
        encoded = _member(member, item, walk)
        if not (walk.omit_defaults and _at_default(member, encoded, walk)):
            yield member.key, encoded


def _positional(shape: Layout, value: Any, walk: Walk) -> list[Any]:
    items = [_member(member, _attribute(value, member), walk) for member in shape.members]
    if walk.omit_defaults:
        for member in reversed(shape.members):
            if not _at_default(member, items[-1], walk):
                break
            items.pop()
    return items if shape.tag is None else [shape.tag[1], *items]


def _attribute(value: Any, member: Member) -> Any:
    try:
        return getattr(value, member.name)
    except AttributeError:
        raise Refused("is not set").below(f".{member.name}") from None


def _member(member: Member, item: Any, walk: Walk) -> Any:
    try:
        return _encoder(member.hint)(item, walk)
    except Refused as refused:
        raise refused.below(f".{member.name}") from None


def _at_default(member: Member, encoded: Any, walk: Walk) -> bool:
    if member.default is None:
        return False
    try:
        default = _encoder(member.hint)(member.default(), Walk(omit_defaults=True))
    except Exception:
        return False
    return dumps(default) == dumps(encoded)


def _typeddict(hint: Any, shape: Layout, value: Any, walk: Walk) -> Any:
    if not is_a(value, dict):
        raise _mismatch(hint, value)
    known = {member.name: member for member in shape.members}
    for key in value:
        if key not in known:
            raise Refused(f"{show(hint)} has no member {key!r:.80}")
    missing = [name for name, member in known.items() if member.required and name not in value]
    if missing:
        raise Refused(f"{show(hint)} lacks the member {missing[0]!r}")
    return {
        name: _item(_encoder(member.hint), value[name], walk, f"[{name!r}]")
        for name, member in known.items()
        if name in value
    }


# Containers


def _item(encoder: Encoder, item: Any, walk: Walk, step: str) -> Any:
    try:
        return encoder(item, walk)
    except Refused as refused:
        raise refused.below(step) from None


def _container(hint: Any, sort: Sort) -> Encoder:
    inner = arguments_of(hint, sort)
    build = {"dict": _dict, "set": _hinted_set, "list": _list, "tuple": _tuple}[sort]
    return _guarded(build(hint, inner))


def _list(hint: Any, inner: tuple[Any, ...]) -> Encoder:
    encoder = _encoder(inner[0])

    def encode_list(value: Any, walk: Walk) -> Any:
        if not is_a(value, list):
            raise _reads_back_as("list", hint, value)
        return [_item(encoder, item, walk, f"[{index}]") for index, item in enumerate(value)]

    return encode_list


def _reads_back_as(sort: str, hint: Any, value: Any) -> Refused:
    if origin(hint).__name__ != sort and is_a(value, origin(hint)):
        return Refused(f"{show(hint)} reads back as a {sort}: give a {sort}, not {_name(value)}")
    return _mismatch(hint, value)


def _tuple(hint: Any, inner: tuple[Any, ...]) -> Encoder:
    if inner[-1:] == (Ellipsis,):
        return _uniform_tuple(hint, _encoder(inner[0]))
    encoders = [_encoder(one) for one in inner]

    def encode_tuple(value: Any, walk: Walk) -> Any:
        if not is_a(value, tuple):
            raise _mismatch(hint, value)
        if len(value) != len(encoders):
            raise Refused(f"expected {show(hint)}, got a tuple of {len(value)}")
        pairs = zip(encoders, value, strict=True)
        return [_item(one, item, walk, f"[{n}]") for n, (one, item) in enumerate(pairs)]

    return encode_tuple


def _uniform_tuple(hint: Any, encoder: Encoder) -> Encoder:
    def encode_tuple(value: Any, walk: Walk) -> Any:
        if not is_a(value, tuple):
            raise _mismatch(hint, value)
        return [_item(encoder, item, walk, f"[{index}]") for index, item in enumerate(value)]

    return encode_tuple


def _hinted_set(hint: Any, inner: tuple[Any, ...]) -> Encoder:
    return _set(hint, inner, hashable=unwrap(inner[0]) is ANY)


def _hashable(encoder: Encoder, item: Any, walk: Walk) -> Any:
    encoded = encoder(item, walk)
    if isinstance(encoded, list | dict):
        raise Refused(f"a {_name(item)} in a set without a hint would not read back")
    return encoded


def _set(hint: Any, inner: tuple[Any, ...], *, hashable: bool = False) -> Encoder:
    encoder = _encoder(inner[0])
    cls = origin(hint)
    if hashable:
        encoder = partial(_hashable, encoder)

    def encode_set(value: Any, walk: Walk) -> Any:
        if not is_a(value, cls):
            raise _mismatch(hint, value)
        return sorted(
            (_item(encoder, item, walk, f"{{{item!r:.40}}}") for item in value), key=dumps
        )

    return encode_set


def _dict(hint: Any, inner: tuple[Any, ...]) -> Encoder:
    key_encoder = _plain_key if unwrap(inner[0]) is ANY else _hinted_key(inner[0])
    encoder = _encoder(inner[1])
    cls = origin(hint)

    def encode_dict(value: Any, walk: Walk) -> Any:
        if not is_a(value, cls):
            raise _mismatch(hint, value)
        items = value.items()
        return {
            key_encoder(key, walk): _item(encoder, item, walk, f"[{key!r:.40}]")
            for key, item in items
        }

    return encode_dict


def _plain_key(key: Any, walk: Walk) -> str:
    if not is_a(key, str):
        raise Refused(
            f"the key {key!r:.40} is of type {_name(key)}; without a hint keys must be str, "
            f"with one such as dict[{_name(key)}, ...] they need not"
        )
    return cast("str", _encoder(str)(key, walk))


def _hinted_key(hint: Any) -> Encoder:
    encoder = _encoder(hint)

    def encode_key(key: Any, walk: Walk) -> str:
        try:
            encoded = encoder(key, walk)
        except Refused as refused:
            raise refused.below(f" (key {key!r:.40})") from None
        return encoded if isinstance(encoded, str) else repr(encoded)

    return encode_key
