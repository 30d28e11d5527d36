"""How the classes that the codec knows are laid out: their members, names, hints and defaults."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, NotRequired, Required

from iworkflow.core.codec.hints import ANY, is_a, is_class

Kind = typing.Literal["dataclass", "struct", "attrs", "typeddict", "namedtuple"]


class UnresolvedHint(TypeError):
    """A hint names what does not exist where it is evaluated."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a class: its attribute, its name on the wire, its hint."""

    name: str
    key: str
    hint: Any
    required: bool = True
    default: Callable[[], Any] | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """The members of a class in declaration order, and how they are written."""

    cls: type
    kind: Kind
    members: tuple[Member, ...]
    as_array: bool = False
    tag: tuple[str, str | int] | None = None


def class_kind(cls: Any) -> Kind | None:
    """Which of the supported sorts of class this is."""
    if not is_a(cls, type):
        return None
    if hasattr(cls, "__struct_fields__"):
        return "struct"
    if is_class(cls, dict) and hasattr(cls, "__total__"):
        return "typeddict"
    if is_class(cls, tuple) and hasattr(cls, "_fields"):
        return "namedtuple"
    if hasattr(cls, "__attrs_attrs__"):
        return "attrs"
    return "dataclass" if dataclasses.is_dataclass(cls) else None


@lru_cache(maxsize=4096)
def layout(hint: Any) -> Layout:
    """Describe a class, or a generic class with its parameters filled in.

    Raises:
        UnresolvedHint: a member's hint names what does not exist.
    """
    cls: Any = typing.get_origin(hint) or hint
    kind = class_kind(cls)
    assert kind is not None
    hints = class_hints(hint)
    if kind == "struct":
        return _struct_layout(cls, hints)
    members = tuple(_MEMBERS[kind](cls, hints))
    return Layout(cls, kind, members, as_array=kind == "namedtuple")


def _struct_layout(cls: Any, hints: Mapping[str, Any]) -> Layout:
    config = cls.__struct_config__
    members = tuple(
        Member(
            name=field.name,
            key=field.encode_name,
            hint=hints.get(field.name, ANY),
            default=_default(field.default, field.default_factory, _nodefault()),
        )
        for field in sys.modules["msgspec.structs"].fields(cls)
    )
    tag = None if config.tag is None else (config.tag_field, config.tag)
    return Layout(cls, "struct", members, as_array=config.array_like, tag=tag)


def _nodefault() -> Any:
    return sys.modules["msgspec"].NODEFAULT


def _dataclass_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[Member]:
    for field in dataclasses.fields(cls):
        default = _default(field.default, field.default_factory, dataclasses.MISSING)
        yield Member(field.name, field.name, hints.get(field.name, ANY), default=default)


def _attrs_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[Member]:
    nothing = sys.modules["attr"].NOTHING
    for field in cls.__attrs_attrs__:
        factory = getattr(field.default, "factory", nothing)
        takes_self = getattr(field.default, "takes_self", False)
        default = None if takes_self else _default(field.default, factory, nothing)
        hint = hints.get(field.name, ANY if field.type is None else field.type)
        yield Member(field.name, field.name, hint, default=default)


def _namedtuple_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[Member]:
    for name in cls._fields:
        default = _default(cls._field_defaults.get(name, ...), ..., ...)
        yield Member(name, name, hints.get(name, ANY), default=default)


def _typeddict_members(cls: Any, hints: Mapping[str, Any]) -> Iterator[Member]:
    for name, hint in hints.items():
        wrapper = typing.get_origin(hint)
        required = name in cls.__required_keys__
        if wrapper in (Required, NotRequired):
            required = wrapper is Required
        yield Member(name, name, hint, required=required)


_MEMBERS: dict[Kind, Callable[[Any, Mapping[str, Any]], Iterator[Member]]] = {
    "dataclass": _dataclass_members,
    "attrs": _attrs_members,
    "namedtuple": _namedtuple_members,
    "typeddict": _typeddict_members,
}


def _default(value: Any, factory: Any, missing: Any) -> Callable[[], Any] | None:
    if factory is not missing:
        return typing.cast("Callable[[], Any]", factory)
    return None if value is missing else lambda: value


def class_hints(hint: Any) -> dict[str, Any]:
    """Resolve the hints of a class and its bases, type parameters filled in."""
    cls: Any = typing.get_origin(hint) or hint
    filled = _parameters(hint)
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base in (object, Generic, dict, tuple):
            continue
        for name, resolved in resolve_class(base).items():
            hints[name] = fill(resolved, filled.get(base, {}))
    return hints


def resolve_class(cls: type) -> dict[str, Any]:
    """Resolve the hints that a class itself declares."""
    scope = {
        **{parameter.__name__: parameter for parameter in getattr(cls, "__type_params__", ())},
        **vars(cls),
    }
    return {
        name: _resolve(name, note, cls.__module__, scope, cls.__qualname__)
        for name, note in inspect.get_annotations(cls).items()
    }


def _resolve(name: str, note: Any, module: str, scope: dict[str, Any], owner: str) -> Any:
    holder = type("_", (), {"__annotations__": {name: note}, "__module__": module})
    names: dict[str, Any] = {**getattr(sys.modules.get(module), "__dict__", {}), **scope}
    try:
        return typing.get_type_hints(holder, names, names, include_extras=True)[name]
    except Exception as error:
        raise UnresolvedHint(
            f"cannot resolve the hint {note!r} of {owner}.{name}: {error}"
        ) from None


def _parameters(hint: Any) -> dict[type, dict[Any, Any]]:
    """For each generic class below the hint: what its type parameters stand for."""
    filled: dict[type, dict[Any, Any]] = {}
    todo: list[tuple[Any, dict[Any, Any]]] = [(hint, {})]
    while todo:
        base, outer = todo.pop()
        cls: Any = typing.get_origin(base) or base
        if not is_class(cls, Generic):
            continue
        given = (fill(argument, outer) for argument in typing.get_args(base))
        scope = dict(zip(getattr(cls, "__parameters__", ()), given, strict=False))
        filled.setdefault(cls, scope)
        todo.extend((below, scope) for below in getattr(cls, "__orig_bases__", cls.__bases__))
    return filled


def fill(hint: Any, scope: Mapping[Any, Any]) -> Any:
    """Put what the type parameters stand for into a hint."""
    if isinstance(hint, typing.TypeVar):
        return scope.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ()) if typing.get_origin(hint) else ()
    if not parameters or not scope:
        return hint
    return hint[tuple(scope.get(parameter, parameter) for parameter in parameters)]
