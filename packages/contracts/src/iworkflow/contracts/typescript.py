"""TypeScript types from a manifest, for neighbours on npm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iworkflow.contracts.folder import TS_MARK, stems_of
from iworkflow.contracts.manifest import Manifest
from iworkflow.contracts.schemas import REF, Schema

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_SCALARS = {
    "null": "null",
    "boolean": "boolean",
    "string": "string",
    "integer": "number",
    "number": "number",
}
_OWN = ("Contract", "Input", "Outcome", "Outcomes", "State", "Signals", "Queries", "contract")
# fmt: off
_RESERVED = frozenset({
    "any", "as", "async", "await", "boolean", "break", "case", "catch", "class",
    "const", "continue", "debugger", "declare", "default", "delete", "do", "else",
    "enum", "export", "extends", "false", "finally", "for", "function", "if",
    "implements", "import", "in", "instanceof", "interface", "let", "never", "new",
    "null", "number", "object", "package", "private", "protected", "public",
    "return", "static", "string", "super", "switch", "symbol", "this", "throw",
    "true", "try", "type", "typeof", "undefined", "unknown", "var", "void",
    "while", "with", "yield", "bigint", "Array", "Record", "Readonly",
})
# fmt: on


def typescript(manifests: Sequence[Manifest]) -> dict[str, str]:
    """Write one module for each manifest: file name -> text.

    Raises:
        FolderError: two names would share a file where case does not count.
    """
    ordered = sorted(manifests, key=lambda one: str(one["name"]))
    stems = stems_of([str(one["name"]) for one in ordered])
    return {f"{stem}.ts": module_of(one) for one, stem in zip(ordered, stems, strict=True)}


def module_of(manifest: Manifest) -> str:
    """Write the module of a manifest."""
    return _Module(manifest).text()


class _Module:
    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.names = _type_names(manifest["$defs"])

    def text(self) -> str:
        return "\n".join([TS_MARK, "", *self._lines()]).rstrip("\n") + "\n"

    def _lines(self) -> Iterator[str]:
        manifest = self.manifest
        for name, schema in manifest["$defs"].items():
            yield from _comment(schema.get("description"))
            yield f"export type {self.names[name]} = {self.type(schema)};"
            yield ""
        yield from (f"export type Input = {self.type(manifest['input'])};", "")
        yield from ("export type Outcomes = {", *self._fields(manifest["outcomes"]), "};", "")
        yield from ("/** No tag says which it is: tell them apart by their members. */",)
        yield from ("export type Outcome = Outcomes[keyof Outcomes];", "")
        yield from (f"export type State = {_union(map(_json, manifest['states']))};", "")
        for title, sort in (("Signals", "signals"), ("Queries", "queries")):
            yield from (f"export type {title} = {{", *self._messages(manifest[sort]), "};", "")
        yield from _comment(manifest.get("description"))
        yield from ("export const contract = {",)
        for key in ("name", "taskQueue", "workflowId"):
            yield f"  {key}: {_json(manifest[key])},"
        yield from ("} as const;", "")

    def _fields(self, schemas: Mapping[str, Schema]) -> Iterator[str]:
        yield from (f"  {_key(name)}: {self.type(schema)};" for name, schema in schemas.items())

    def _messages(self, messages: Mapping[str, Any]) -> Iterator[str]:
        for name, one in messages.items():
            yield from (f"  {line}" for line in _comment(one["description"]))
            yield f"  {_key(name)}: {self.type(one['schema'])};"

    def type(self, schema: Schema) -> str:
        """Write the type of a schema."""
        if "$ref" in schema:
            return self.names[str(schema["$ref"]).removeprefix(REF)]
        if "const" in schema:
            return _json(schema["const"])
        if "enum" in schema:
            return _union(_json(one) for one in schema["enum"])
        inner = schema.get("anyOf", schema.get("oneOf"))
        if inner is not None:
            return _union(self.type(one) for one in inner)
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return self._array(schema)
        return _SCALARS.get(str(kind), "unknown")

    def _object(self, schema: Schema) -> str:
        if "properties" not in schema:
            values: Schema | bool = schema.get("additionalProperties", {})
            return f"Record<string, {self.type({} if isinstance(values, bool) else values)}>"
        required = schema.get("required", ())
        fields = [
            f"{_key(name)}{'' if name in required else '?'}: {self.type(one)}"
            for name, one in schema["properties"].items()
        ]
        return f"{{ {'; '.join(fields)} }}" if fields else "Record<string, never>"

    def _array(self, schema: Schema) -> str:
        if "prefixItems" not in schema:
            return f"Array<{self.type(schema.get('items', {}))}>"
        least = schema.get("minItems", 0)
        items = [
            self.type(one) + ("" if place < least else "?")
            for place, one in enumerate(schema["prefixItems"])
        ]
        return f"[{', '.join(items)}]"


def _type_names(definitions: Mapping[str, Schema]) -> dict[str, str]:
    """Name each definition in TypeScript; two never share a name, or one with the module."""
    names: dict[str, str] = {}
    for name in definitions:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = f"_{plain}" if plain[:1].isdigit() or plain in _RESERVED or not plain else plain
        found, number = plain, 2
        while found in _OWN or found in names.values():
            found, number = f"{plain}_{number}", number + 1
        names[name] = found
    return names


def _union(types: Any) -> str:
    listed = list(dict.fromkeys(types))
    return " | ".join(listed) if listed else "never"


def _key(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else _json(name)


def _json(value: object) -> str:
    return (
        json.dumps(value, ensure_ascii=False)
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def _comment(text: object) -> Iterator[str]:
    if text:
        line = " ".join(str(text).split()).replace("*/", "* /")
        yield f"/** {line} */"
