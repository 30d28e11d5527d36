"""The page of a contract, and the index of pages: Markdown made from manifests alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iworkflow.contracts.diagram import diagram_of
from iworkflow.contracts.manifest import GENERATOR, Manifest
from iworkflow.contracts.schemas import REF, Schema

MARK = f'<!-- "$generator": "{GENERATOR}" -->'
"""The first line of every Markdown file that is generated."""

_ESCAPED = frozenset("\\`*_{}[]<>#|&~$")


def page_of(manifest: Manifest, file: str) -> str:
    """Write the page of a contract; `file` is the name of its manifest."""
    return "\n".join(_blocks(manifest, file)).rstrip("\n") + "\n"


def index_of(pages: Sequence[tuple[Manifest, str]]) -> str:
    """Write the index: each contract, with the file of its page."""
    rows = [
        [f"[{text(one['name'])}]({_link(file)})", code(one["taskQueue"]), _summary(one)]
        for one, file in pages
    ]
    lines = [MARK, "# Contracts", "", *table(["contract", "task queue", "outcomes"], rows)]
    return "\n".join(lines) + "\n"


def _summary(manifest: Manifest) -> str:
    return ", ".join(text(name) for name in manifest["outcomes"])


def _link(file: str) -> str:
    return file.replace("%", "%25")


def _blocks(manifest: Manifest, file: str) -> Iterator[str]:
    yield from (MARK, f"# {text(manifest['name'])}", "")
    if "description" in manifest:
        yield from (text(manifest["description"]), "")
    yield from (
        f"- task queue: {code(manifest['taskQueue'])}",
        f"- workflow id: {code(manifest['workflowId'])}",
        f"- manifest: [{text(file)}]({_link(file)})",
        "",
        "```mermaid",
        diagram_of(manifest).rstrip("\n"),
        "```",
        "",
    )
    yield from _described("States", ["state", "next", "description"], _states(manifest))
    definitions = manifest["$defs"]
    yield from ("## Input", "", *_type(manifest["input"], definitions), "")
    yield from ("## Outcomes", "", "A value is the one outcome that it fits.", "")
    for name, schema in manifest["outcomes"].items():
        yield from (f"### {text(name)}", "", *_type(schema, definitions), "")
    for title, sort, column in (("Signals", "signals", "topic"), ("Queries", "queries", "key")):
        rows = _messages(manifest[sort])
        yield from _described(title, [column, "value", "description"], rows)
    yield from _definitions(manifest)


def _described(title: str, columns: Sequence[str], rows: list[list[str]]) -> Iterator[str]:
    if rows:
        yield from (f"## {title}", "", *table(columns, rows), "")


def _states(manifest: Manifest) -> list[list[str]]:
    return [
        [text(name), ", ".join(map(text, state["next"])), text(state.get("description", ""))]
        for name, state in manifest["states"].items()
    ]


def _messages(messages: Mapping[str, Any]) -> list[list[str]]:
    return [
        [code(name), shown(one["schema"]), text(one["description"])]
        for name, one in messages.items()
    ]


def _type(schema: Schema, definitions: Mapping[str, Schema]) -> Iterator[str]:
    """Show a type: what it is called, its description, its members."""
    name = str(schema.get("$ref", "")).removeprefix(REF)
    target = definitions.get(name, schema)
    yield f"`{name}`" if name else shown(schema)
    if "description" in target:
        yield from ("", text(target["description"]))
    if target.get("properties"):
        yield from ("", *table(["member", "type", "required", "notes"], _members(target)))


def _members(schema: Schema) -> list[list[str]]:
    required = schema.get("required", ())
    return [
        [code(name), shown(one), "yes" if name in required else "no", _notes(one)]
        for name, one in schema["properties"].items()
    ]


def _notes(schema: Schema) -> str:
    kept = {
        word: value
        for word, value in schema.items()
        if word in ("default", "pattern") or word.startswith(("min", "max", "exclusive", "multi"))
    }
    notes = [f"{word} {code(_json(value))}" for word, value in kept.items()]
    return "; ".join([*filter(None, [text(schema.get("description", ""))]), *notes])


def _definitions(manifest: Manifest) -> Iterator[str]:
    """The types that the others refer to and that have not been shown yet."""
    tops = [manifest["input"], *manifest["outcomes"].values()]
    seen = {str(one.get("$ref", "")).removeprefix(REF) for one in tops}
    rest = {name: one for name, one in manifest["$defs"].items() if name not in seen}
    if rest:
        yield from ("## Types", "")
    for name, schema in rest.items():
        yield from (f"### {text(name)}", "")
        if "properties" in schema:
            yield from (*_type(schema, {}), "") if "description" in schema else ()
            yield from (*table(["member", "type", "required", "notes"], _members(schema)), "")
        else:
            yield from (shown(schema), "")


def shown(schema: Schema) -> str:
    """Name a type in a few words, as Markdown."""
    return code(type_words(schema))


def type_words(schema: Schema) -> str:
    """Name a type in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(REF)
    if "const" in schema:
        return _json(schema["const"])
    if "enum" in schema:
        return " | ".join(_json(one) for one in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(type_words(one) for one in schema["anyOf"])
    kind = schema.get("type")
    if kind == "array":
        return _array(schema)
    if kind == "object" and "properties" not in schema:
        return f"map of {type_words(schema.get('additionalProperties', {}))}"
    extra = schema.get("format") or schema.get("contentEncoding")
    return f"{kind or 'any'} ({extra})" if extra else str(kind or "any")


def _array(schema: Schema) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(type_words(one) for one in schema['prefixItems'])}]"
    items = schema.get("items", {})
    return f"array of {type_words(items)}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Write a table whose cells are Markdown."""
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def text(value: object) -> str:
    """Write any text as Markdown that shows it, on one line."""
    line = " ".join(str(value).split())
    return "".join(f"\\{one}" if one in _ESCAPED else one for one in line)


def code(value: object) -> str:
    """Write any text as a code span that may stand in a table."""
    line = " ".join(str(value).split(" ")).translate({ord(one): " " for one in "\r\n\t\v\f"})
    line = line.replace("|", "\\|")
    fence = "`"
    while fence in line:
        fence += "`"
    pad = " " if line[:1] in ("`", "") or line[-1:] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
