"""What differs between two JSON Schemas, member by member."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from iworkflow.contracts.reading import Type, inner_of, words
from iworkflow.contracts.schemas import Schema


@dataclass(frozen=True, slots=True)
class Difference:
    """A change at a path; `documented` says that only text for people changed."""

    path: str
    what: str
    documented: bool = False


def differences(old: Type, new: Type, path: str = "") -> list[Difference]:
    """List the changes from one type to another."""
    return list(_Comparison().compare(old, new, path))


class _Comparison:
    def __init__(self) -> None:
        self._open: set[str] = set()

    def compare(self, old: Type, new: Type, path: str) -> Iterator[Difference]:
        """Compare; inside of two types, the same two again are passed over."""
        key = json.dumps([old.schema, new.schema], sort_keys=True)
        if "$ref" in key and key in self._open:
            return
        self._open.add(key)
        yield from self._types(old, new, path)
        self._open.discard(key)

    def _types(self, old: Type, new: Type, path: str) -> Iterator[Difference]:
        if _notes(old) != _notes(new):
            yield Difference(path, "documentation changed", documented=True)
        before, after = old.alternatives(), new.alternatives()
        if len(before) != len(after):
            yield _changed(old, new, path)
            return
        for one, other in zip(before, after, strict=True):
            yield from self._alternative(one, other, path)

    def _alternative(self, old: Type, new: Type, path: str) -> Iterator[Difference]:
        if "properties" in old.schema and "properties" in new.schema:
            yield from self._members(old, new, path)
        elif _shape(old) != _shape(new):
            yield _changed(old, new, path)
        else:
            yield from self._inside(old, new, path)

    def _inside(self, old: Type, new: Type, path: str) -> Iterator[Difference]:
        for word, mark in (("items", "[]"), ("additionalProperties", "{}")):
            before, after = inner_of(old, word), inner_of(new, word)
            if before is not None or after is not None:
                yield from self.compare(old.at(before or {}), new.at(after or {}), path + mark)
        pairs = zip_longest(old.schema.get("prefixItems", ()), new.schema.get("prefixItems", ()))
        for place, (before, after) in enumerate(pairs):
            yield from self.compare(old.at(before), new.at(after), f"{path}[{place}]")

    def _members(self, old: Type, new: Type, path: str) -> Iterator[Difference]:
        for name in old.properties:
            inner = f"{path}.{name}" if path else name
            if name not in new.properties:
                yield Difference(inner, f"member removed (it was {_need(old, name)})")
                continue
            if (name in old.required) != (name in new.required):
                yield Difference(inner, f"was {_need(old, name)}, is {_need(new, name)}")
            yield from self.compare(old.member(name), new.member(name), inner)
        for name in new.properties:
            if name not in old.properties:
                inner = f"{path}.{name}" if path else name
                yield Difference(inner, f"member added ({_need(new, name)})")
        if (strict := _strict(new)) != _strict(old):
            known = "refuses" if strict else "ignores"
            yield Difference(path, f"now {known} members that it does not know")


def _need(type: Type, name: str) -> str:
    return "required" if name in type.required else "optional"


def _strict(type: Type) -> bool:
    return type.schema.get("additionalProperties") is False


def _changed(old: Type, new: Type, path: str) -> Difference:
    before, after = words(old), words(new)
    if before == after:
        before, after = _text(_shape(old)), _text(_shape(new))
    return Difference(path, f"type changed from {before} to {after}")


def _text(schema: Schema) -> str:
    return json.dumps(schema, ensure_ascii=False)


def _shape(type: Type) -> Schema:
    """What a type is, without what is inside of it."""
    kept = dict(type.schema)
    if isinstance(kept.get("items"), dict):
        del kept["items"]
    if isinstance(kept.get("additionalProperties"), dict):
        del kept["additionalProperties"]
    if "prefixItems" in kept:
        kept["prefixItems"] = len(kept["prefixItems"])
    return kept


def _notes(type: Type) -> Schema:
    plain = type.plain().schema
    schema = type.schema
    found = {key: value for key, value in schema.items() if key not in plain and key != "$ref"}
    while "$ref" in schema:
        schema = type.definitions[str(schema["$ref"]).rpartition("/")[2]]
        found |= {key: value for key, value in schema.items() if key not in plain}
    found.pop("title", None)
    return found
