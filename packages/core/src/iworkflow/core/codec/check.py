"""Which hints the codec can read back.

Checked without msgspec, since a package that only defines flows has none; where msgspec is
installed, it is asked too.
"""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from types import NoneType
from typing import Any, ForwardRef, Union
from uuid import UUID

from iworkflow.core.codec.containers import Sort, arguments_of, sort_of
from iworkflow.core.codec.hints import (
    ANY,
    is_alias,
    is_enum,
    is_literal,
    is_pydantic,
    is_unset,
    of_class,
    origin,
    show,
    unwrap,
)
from iworkflow.core.codec.layout import class_kind, layout
from iworkflow.core.codec.scalars import FORMS

_TEXTS = {str, bytes, bytearray, memoryview, datetime, date, time, timedelta, Decimal, UUID}
_KEYS = {str, int, float, bytes, datetime, date, time, timedelta, Decimal, UUID}


class Unreadable(TypeError):
    """A hint that the codec cannot read back; the message says why."""


def check_hint(hint: object, *, where: str) -> None:
    """Make sure that the codec reads back what it writes under this hint.

    Raises:
        TypeError: names `where`, the hint and what is wrong with it.
    """
    reason = _fault(hint)
    if reason is not None:
        raise TypeError(f"{where}: the codec cannot read back {show(hint)}: {reason}")


def _fault(hint: object) -> str | None:
    try:
        return _cached_fault(hint)
    except TypeError:  # the hint is not hashable
        return _find_fault(hint)


@lru_cache(maxsize=4096)
def _cached_fault(hint: object) -> str | None:
    return _find_fault(hint)


def _find_fault(hint: object) -> str | None:
    try:
        _check(hint, ())
    except TypeError as error:
        return str(error)
    return _msgspec_fault(hint)


def _msgspec_fault(hint: object) -> str | None:
    if unwrap(hint) is ANY:
        return None
    try:
        import msgspec
    except ImportError:
        return None
    try:
        msgspec.json.Decoder(typing.cast("Any", hint))
    except Exception as error:
        return str(error).replace("`", "")
    return None


def _check(hint: Any, inside: tuple[Any, ...]) -> None:
    if hint in inside:
        if is_alias(hint):
            raise Unreadable(f"{show(hint)} is an alias that contains itself; use a class")
        return
    inside = (*inside, hint)
    for inner in _inner_hints(unwrap(hint)):
        _check(inner, inside)


def _inner_hints(hint: Any) -> Iterator[Any]:
    """Check one hint, and yield the hints below it."""
    kind = origin(hint)
    if hint is ANY or hint in FORMS:
        return iter(())
    if kind is Union:
        return _union(hint)
    if is_literal(hint):
        return _literal(hint)
    if is_enum(hint):
        return _enum(hint)
    if is_pydantic(hint) or is_unset(hint):
        return iter(())
    if class_kind(kind):
        return _object(hint)
    if (sort := sort_of(kind)) is not None:
        return _container(hint, sort)
    raise Unreadable(_unknown(hint))


def _unknown(hint: Any) -> str:
    if isinstance(hint, str | ForwardRef):
        return f"the name {show(hint)} is not resolved"
    return f"{show(hint)} is no type that it knows"


def _literal(hint: Any) -> Iterator[Any]:
    for one in typing.get_args(hint):
        if type(one) not in (NoneType, bool, int, str):
            raise Unreadable(f"a Literal may hold None, bool, int and str, not {one!r}")
    return iter(())


def _enum(hint: Any) -> Iterator[Any]:
    kinds = {of_class(member.value) for member in hint.__members__.values()}
    if kinds not in ({str}, {int}):
        raise Unreadable(f"the values of enum {show(hint)} must be all str or all int")
    return iter(())


def _object(hint: Any) -> Iterator[Any]:
    shape = layout(hint)
    for name, declared in getattr(shape.cls, "__dataclass_fields__", {}).items():
        if "INITVAR" in repr(declared._field_type):
            raise Unreadable(f"{show(hint)}.{name} is an InitVar, which is not kept")
    for declared in getattr(shape.cls, "__attrs_attrs__", ()):
        if getattr(declared.default, "takes_self", False):
            raise Unreadable(f"the default of {show(hint)}.{declared.name} takes self")
    return (member.hint for member in shape.members)


def _container(hint: Any, sort: Sort) -> Iterator[Any]:
    inner = [one for one in arguments_of(hint, sort) if one is not Ellipsis]
    if sort == "dict":
        _check_key(hint, unwrap(inner[0]))
    if sort == "set":
        _check_element(hint, unwrap(inner[0]))
    return iter(inner)


def _check_key(hint: Any, key: Any) -> None:
    if key is ANY or key in _KEYS or is_enum(key):
        return
    if is_literal(key) and {of_class(one) for one in typing.get_args(key)} in ({str}, {int}):
        return
    raise Unreadable(f"{show(key)} is no key that JSON can hold, in {show(hint)}")


def _check_element(hint: Any, element: Any) -> None:
    if isinstance(origin(element), type) and origin(element).__hash__ is None:
        raise Unreadable(f"{show(element)} is not hashable, in {show(hint)}")


# Unions: JSON tells null, booleans, numbers, strings, arrays and objects apart, and no more.


def _union(hint: Any) -> Iterator[Any]:
    members = [unwrap(member) for member in typing.get_args(hint)]
    if ANY in members:
        return iter(())
    plain = [member for member in members if not is_literal(member)]
    kinds = Counter(_json_kind(member) for member in plain if not _is_tagged(member))
    tagged = [member for member in plain if _is_tagged(member)]
    kinds.update({_json_kind(member) for member in tagged})
    for kind, count in kinds.items():
        if count > 1:
            alike = [show(one) for one in plain if _json_kind(one) == kind]
            raise Unreadable(f"{_listed(alike)} are all {kind} in JSON{_remedy(kind)}")
    if kinds["a model"]:
        _check_model_union(members)
    return iter(members)


def _check_model_union(members: list[Any]) -> None:
    others = [one for one in members if one is not NoneType and not is_pydantic(one)]
    if others:
        raise Unreadable("a pydantic model may stand in a union with None alone")


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _remedy(kind: str) -> str:
    return "; use tagged Structs (msgspec.Struct, tag=True)" if kind == "objects" else ""


def _json_kind(hint: Any) -> str:
    if is_enum(hint):
        return "strings" if isinstance(next(iter(hint)).value, str) else "integers"
    if hint in _TEXTS:
        return "strings"
    if is_pydantic(hint):
        return "a model"
    if class_kind(origin(hint)):
        return "arrays" if layout(hint).as_array else "objects"
    sort = sort_of(origin(hint))
    if sort is not None:
        return "objects" if sort == "dict" else "arrays"
    return {int: "integers"}.get(hint, show(hint))


def _is_tagged(hint: Any) -> bool:
    return class_kind(origin(hint)) == "struct" and layout(hint).tag is not None
