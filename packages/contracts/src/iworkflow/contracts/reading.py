"""Whether one side reads all that the other may write, told from their two JSON Schemas.

The answer is cautious: what cannot be told apart from a break is one. The rules are those of the
codec: members that a class does not know are ignored, an integer is read as a number, text of
any format is read as plain text, and nothing else is turned into anything else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from iworkflow.contracts.page import type_words
from iworkflow.contracts.schemas import REF, Schema

NOTES = frozenset({"title", "description", "default", "examples", "deprecated"})
"""What a schema says to people alone."""

_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_EQUAL = ("pattern", "multipleOf", "propertyNames")
_KNOWN = frozenset(
    {
        *("type", "enum", "const", "anyOf", "oneOf", "$ref", "format", "contentEncoding"),
        *("properties", "required", "additionalProperties", "discriminator"),
        *("items", "prefixItems", "uniqueItems"),
        *_LOWER,
        *_UPPER,
        *_EQUAL,
        *NOTES,
    }
)


@dataclass(frozen=True, slots=True)
class Misread:
    """Where a reader does not read what a writer may write, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Type:
    """A schema with the definitions that it refers to."""

    schema: Schema
    definitions: Mapping[str, Schema] = field(default_factory=dict[str, Schema])

    def at(self, schema: Schema) -> Type:
        """The same definitions, another schema."""
        return Type(schema, self.definitions)

    def plain(self) -> Type:
        """Follow references, and drop what is for people alone."""
        schema = self.schema
        while "$ref" in schema:
            schema = self.definitions[str(schema["$ref"]).removeprefix(REF)]
        return self.at({key: value for key, value in schema.items() if key not in NOTES})

    def alternatives(self) -> list[Type]:
        """List what it may be, one JSON type each."""
        plain = self.plain()
        inner = plain.schema.get("anyOf", plain.schema.get("oneOf"))
        if inner is None:
            return [plain]
        return [found for one in inner for found in self.at(one).alternatives()]

    def values(self) -> list[Any] | None:
        """List the values, where they are few."""
        if "const" in self.schema:
            return [self.schema["const"]]
        return self.schema.get("enum")

    def member(self, name: str) -> Type:
        """The type of a member."""
        return self.at(self.schema["properties"][name])

    @property
    def properties(self) -> Mapping[str, Schema]:
        """The members of a class."""
        found: Mapping[str, Schema] = self.schema.get("properties", {})
        return found

    @property
    def required(self) -> frozenset[str]:
        """The members that are always there."""
        return frozenset(self.schema.get("required", ()))


def words(type: Type) -> str:
    """Name a type in a few words."""
    return type_words(type.schema)


def misreads(reader: Type, writer: Type, path: str = "") -> list[Misread]:
    """List where the reader does not read what the writer may write."""
    return list(_Reading().misreads(reader, writer, path))


class _Reading:
    def __init__(self) -> None:
        self._open: set[str] = set()

    def misreads(self, reader: Type, writer: Type, path: str) -> Iterator[Misread]:
        """Compare; inside of two types, the same two again are taken to fit."""
        key = json.dumps([reader.schema, writer.schema], sort_keys=True)
        if "$ref" in key and key in self._open:
            return
        self._open.add(key)
        yield from self._types(reader, writer, path)
        self._open.discard(key)

    def _types(self, reader: Type, writer: Type, path: str) -> Iterator[Misread]:
        takes = reader.alternatives()
        if any(not one.schema for one in takes):
            return
        for gives in writer.alternatives():
            yield from self._alternative(takes, gives, path)

    def _alternative(self, takes: list[Type], gives: Type, path: str) -> Iterator[Misread]:
        values = gives.values()
        if values is not None:
            yield from _unread_values(takes, values, path)
            return
        near = [one for one in takes if _same_kind(one, gives)]
        tries: list[list[Misread]] = []
        for one in near:
            found = list(self._one(one, gives, path))
            if not found:
                return
            tries.append(found)
        if tries:
            yield from min(tries, key=len)
        else:
            asked = " or ".join(words(one) for one in takes)
            yield Misread(path, f"{words(gives)} is written where {asked} is read")

    def _one(self, takes: Type, gives: Type, path: str) -> Iterator[Misread]:
        strange = (set(takes.schema) | set(gives.schema)) - _KNOWN
        if strange and takes.schema != gives.schema:
            yield Misread(path, f"{', '.join(sorted(strange))} cannot be compared")
        if takes.values() is not None:
            yield Misread(path, f"{words(gives)} is written where {words(takes)} is read")
            return
        yield from _form(takes, gives, path)
        kind = gives.schema.get("type")
        if kind == "object":
            yield from self._object(takes, gives, path)
        elif kind == "array":
            yield from self._array(takes, gives, path)

    def _object(self, takes: Type, gives: Type, path: str) -> Iterator[Misread]:
        if "properties" not in takes.schema:
            yield from self._map(takes, gives, path)
            return
        if "properties" not in gives.schema:
            yield Misread(path, "a map is written where members are read")
            return
        for name in takes.schema.get("required", ()):
            if name not in gives.properties:
                yield Misread(_below(path, name), "is required, and not written")
            elif name not in gives.required:
                yield Misread(_below(path, name), "is required, and may be left out")
        for name in gives.properties:
            inner = _below(path, name)
            if name in takes.properties:
                yield from self.misreads(takes.member(name), gives.member(name), inner)
            elif takes.schema.get("additionalProperties") is False:
                yield Misread(inner, "is written, and refused as unknown")

    def _map(self, takes: Type, gives: Type, path: str) -> Iterator[Misread]:
        values = takes.at(_inner(takes, "additionalProperties"))
        for name in gives.properties:
            yield from self.misreads(values, gives.member(name), _below(path, name))
        if "properties" not in gives.schema:
            inner = gives.at(_inner(gives, "additionalProperties"))
            yield from self.misreads(values, inner, path + "{}")

    def _array(self, takes: Type, gives: Type, path: str) -> Iterator[Misread]:
        wanted, given = takes.schema.get("prefixItems"), gives.schema.get("prefixItems")
        if wanted is None:
            items = takes.at(_inner(takes, "items"))
            each = [gives.at(_inner(gives, "items"))] if given is None else map(gives.at, given)
            for one in each:
                yield from self.misreads(items, one, path + "[]")
        elif given is None:
            yield Misread(path, f"{words(gives)} is written where {words(takes)} is read")
        else:
            for place, (one, other) in enumerate(zip(wanted, given, strict=False)):
                yield from self.misreads(takes.at(one), gives.at(other), f"{path}[{place}]")


def inner_of(type: Type, word: str) -> Schema | None:
    """The schema below a keyword; None if there is none, or a yes or no."""
    inner: Schema | bool | None = type.schema.get(word)
    return None if isinstance(inner, bool) else inner


def _inner(type: Type, word: str) -> Schema:
    return inner_of(type, word) or {}


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _same_kind(takes: Type, gives: Type) -> bool:
    values = takes.values()
    wanted = takes.schema.get("type")
    given = gives.schema.get("type")
    if values is not None:
        return any(_kind(value) == given for value in values)
    if given == "integer" and wanted == "number":
        return True
    if takes.schema.get("format") == "decimal" and given in ("integer", "number"):
        return True
    return given is not None and wanted == given


def _kind(value: object) -> str:
    for cls, kind in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
        if isinstance(value, cls):
            return kind
    return "null"


def _unread_values(takes: list[Type], values: list[Any], path: str) -> Iterator[Misread]:
    unread = [value for value in values if not any(_accepts(one, value) for one in takes)]
    if unread:
        listed = ", ".join(json.dumps(value, ensure_ascii=False) for value in unread)
        asked = " or ".join(words(one) for one in takes)
        yield Misread(path, f"{listed} is written where {asked} is read")


def _accepts(takes: Type, value: Any) -> bool:
    values = takes.values()
    if values is not None:
        return any(type(one) is type(value) and one == value for one in values)
    gives = Type({"type": _kind(value)})
    return _same_kind(takes, gives) and not list(_form(takes, gives, ""))


def _form(takes: Type, gives: Type, path: str) -> Iterator[Misread]:
    """Compare formats and limits: the writer's must be as narrow as the reader's."""
    wanted, given = takes.schema, gives.schema
    if wanted.get("type") == given.get("type"):
        for word in ("format", "contentEncoding", *_EQUAL):
            if word in wanted and wanted[word] != given.get(word):
                yield Misread(path, f"{words(gives)} is written where {words(takes)} is read")
                break
    for names, sign in ((_LOWER, 1), (_UPPER, -1)):
        for word in names:
            if word in wanted and not _as_narrow(wanted[word], given.get(word), sign):
                yield Misread(path, f"{word} {wanted[word]} is asked for, and not kept to")


def _as_narrow(wanted: Any, given: Any, sign: int) -> bool:
    return given is not None and sign * given >= sign * wanted


def exclude(reader: Type, writer: Type) -> bool:
    """Whether the reader, a class, can read nothing that the writer may write."""
    takes, gives = reader.plain(), writer.plain()
    if any(name not in gives.properties for name in takes.required):
        return True
    common = [name for name in takes.properties if name in gives.properties]
    return any(_apart(takes.member(name), gives.member(name)) for name in common)


def _apart(takes: Type, gives: Type) -> bool:
    """Whether no value is of both types."""
    return not any(
        _overlap(one, other) for one in takes.alternatives() for other in gives.alternatives()
    )


def _overlap(takes: Type, gives: Type) -> bool:
    values, others = takes.values(), gives.values()
    if others is not None:
        return any(_accepts(takes, value) for value in others)
    if values is not None:
        return any(_same_kind(gives, Type({"type": _kind(value)})) for value in values)
    return not takes.schema or not gives.schema or _same_kind(takes, gives)
