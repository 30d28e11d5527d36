"""JSON Schema (2020-12) of what the codec writes: one set of definitions for a contract.

It is our own walk over the hints, as the codec's is: the schema says what stands on the wire,
in the order of declaration, and does not change with the version of another package.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, NewType, Union, cast
from uuid import UUID

from iworkflow.contracts.members import Field, fields_of
from iworkflow.core.codec import ANY, encode, show
from iworkflow.core.codec.containers import Sort, arguments_of, sort_of
from iworkflow.core.codec.hints import (
    is_a,
    is_enum,
    is_literal,
    is_pydantic,
    is_unset,
    of_class,
    origin,
    unwrap,
)
from iworkflow.core.codec.layout import class_kind, layout

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REF = "#/$defs/"

_SCALARS: dict[Any, Schema] = {
    NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Decimal: {"type": "string", "format": "decimal"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    timedelta: {"type": "string", "format": "duration"},
    UUID: {"type": "string", "format": "uuid"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    bytearray: {"type": "string", "contentEncoding": "base64"},
    memoryview: {"type": "string", "contentEncoding": "base64"},
}

_LIMITS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_LENGTHS = {"string": "Length", "array": "Items", "object": "Properties"}
_EMPTY: tuple[Any, ...] = (list, dict, set, frozenset, tuple)


class Schemas:
    """Turns hints into schemas; classes become definitions that the schemas refer to."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._names: dict[Any, str] = {}

    def of(self, hint: Any) -> Schema:
        """Return the schema of a hint."""
        return _annotated(hint, self._bare(unwrap(hint)))

    def _bare(self, hint: Any) -> Schema:
        kind = origin(hint)
        if hint is ANY:
            return {}
        if hint in _SCALARS:
            return dict(_SCALARS[hint])
        if kind is Union:
            return self._union(typing.get_args(hint))
        if is_literal(hint):
            return _choices(typing.get_args(hint))
        if is_enum(hint):
            return self._defined(hint, lambda: _choices(one.value for one in hint))
        if is_pydantic(hint):
            return self._defined(hint, lambda: self._model(hint))
        if class_kind(kind):
            return self._defined(hint, lambda: self._class(hint))
        sort = sort_of(kind)
        assert sort is not None, hint
        return self._container(hint, sort)

    def _union(self, members: tuple[Any, ...]) -> Schema:
        schemas = [self.of(member) for member in members if not is_unset(member)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def _container(self, hint: Any, sort: Sort) -> Schema:
        inner = arguments_of(hint, sort)
        if sort == "dict":
            return self._mapping(*inner)
        if sort == "tuple" and inner[-1:] != (Ellipsis,):
            return self._fixed([self.of(one) for one in inner], len(inner))
        schema: Schema = {"type": "array"}
        if items := self.of(inner[0]):
            schema["items"] = items
        if sort == "set":
            schema["uniqueItems"] = True
        return schema

    def _mapping(self, key: Any, value: Any) -> Schema:
        schema: Schema = {"type": "object"}
        keys = self._key(unwrap(key))
        if keys:
            schema["propertyNames"] = keys
        if values := self.of(value):
            schema["additionalProperties"] = values
        return schema

    def _key(self, key: Any) -> Schema:
        """The schema of a key's text; numbers as keys are written as text."""
        if key is ANY or key is str:
            return {}
        if key in (int, float):
            return {"pattern": r"^-?\d+$"} if key is int else {"pattern": r"^-?\d.*$"}
        schema = self.of(key)
        texts = [str(one) for one in schema.get("enum", ())]
        return {"enum": texts} if texts else schema

    def _fixed(self, items: list[Schema], least: int) -> Schema:
        return {
            "type": "array",
            "prefixItems": items,
            "items": False,
            "minItems": least,
            "maxItems": len(items),
        }

    def _class(self, hint: Any) -> Schema:
        fields = fields_of(hint)
        if fields is None:
            return self._positional(hint)
        schema: Schema = {"type": "object", "properties": {f.key: self._member(f) for f in fields}}
        required = [field.key for field in fields if field.required]
        if required:
            schema["required"] = required
        config = getattr(origin(hint), "__struct_config__", None)
        if config is not None and config.forbid_unknown_fields:
            schema["additionalProperties"] = False
        return schema

    def _positional(self, hint: Any) -> Schema:
        shape = layout(hint)
        items = [self.of(member.hint) for member in shape.members]
        if shape.tag is not None:
            items.insert(0, {"const": shape.tag[1]})
        optional = sum(member.default is not None for member in shape.members)
        return self._fixed(items, len(items) - optional)

    def _member(self, field: Field) -> Schema:
        schema = self.of(field.hint)
        if field.default is not None and _is_fixed(field.default):
            schema.update(_default(field.default(), field))
        return schema

    def _model(self, model: Any) -> Schema:
        """Take pydantic's own schema; its definitions become ours, under names that are free."""
        schema: Schema = model.model_json_schema(by_alias=True, ref_template=REF + "{model}")
        schema.pop("title", None)
        inner: dict[str, Schema] = schema.pop("$defs", {})
        names: dict[str, str] = {}
        for name in inner:
            names[name] = self._free_name(name)
            self.definitions[names[name]] = {}
        for name, one in inner.items():
            self.definitions[names[name]].update(_renamed(one, names))
        return cast("Schema", _renamed(schema, names))

    def _defined(self, hint: Any, build: Callable[[], Schema]) -> Schema:
        if hint not in self._names:
            name = self._names[hint] = self._free_name(show(hint))
            self.definitions[name] = {}
            described = {"title": show(hint), **_description(origin(hint)), **build()}
            self.definitions[name].update(described)
        return {"$ref": REF + self._names[hint]}

    def _free_name(self, wanted: str) -> str:
        """Name a definition; a second class of the same name gets a number."""
        plain = "".join(one if one.isalnum() or one in "_-." else "_" for one in wanted)
        name, number = plain, 2
        while name in self.definitions:
            name, number = f"{plain}_{number}", number + 1
        return name


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    """Write the references of a schema with the names that its definitions have got."""
    if is_a(schema, dict):
        found = {key: _renamed(value, names) for key, value in schema.items()}
        if isinstance(found.get("$ref"), str):
            name = found["$ref"].removeprefix(REF)
            found["$ref"] = REF + names.get(name, name)
        return found
    return [_renamed(one, names) for one in schema] if is_a(schema, list) else schema


def _choices(values: Iterable[Any]) -> Schema:
    listed = list(values)
    return {"const": listed[0]} if len(listed) == 1 else {"enum": listed}


def _description(cls: Any) -> Schema:
    text = vars(cls).get("__doc__") if isinstance(cls, type) else None
    if not isinstance(text, str) or text.startswith(f"{cls.__name__}("):
        return {}
    return {"description": inspect.cleandoc(text)}


def _default(value: Any, field: Field) -> Schema:
    """The default, unless it stands for what is left out or does not fit its own hint."""
    try:
        return {"default": encode(value, field.hint, where=field.key)}
    except TypeError:
        return {}


def _is_fixed(default: Callable[[], Any]) -> bool:
    """Whether a default is the same in every process: a plain value or an empty container.

    Core's layout makes a function of its own for a plain value; any other is the user's factory.
    """
    return default in _EMPTY or default.__module__ == layout.__module__


def _annotated(hint: Any, schema: Schema) -> Schema:
    """Add what the notes of an `Annotated` say."""
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    notes = [one for one in getattr(hint, "__metadata__", ()) if _is_meta(one)]
    for note in notes:
        schema.update(_limits(note, str(schema.get("type", ""))))
    return schema


def _is_meta(note: Any) -> bool:
    return (of_class(note).__module__, of_class(note).__name__) == ("msgspec", "Meta")


def _limits(note: Any, kind: str) -> Schema:
    found: Schema = {
        **{word: getattr(note, name) for name, word in _LIMITS.items()},
        f"min{_LENGTHS.get(kind, '')}": note.min_length,
        f"max{_LENGTHS.get(kind, '')}": note.max_length,
        "title": note.title,
        "description": note.description,
        **(note.extra_json_schema or {}),
    }
    return {word: value for word, value in found.items() if value is not None}
