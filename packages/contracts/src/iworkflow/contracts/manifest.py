"""The manifest of a contract: what neighbours in any language read.

`manifest.schema.json`, next to this module, is its JSON Schema; `MANIFEST_VERSION` counts the
changes of the format that a reader must know of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from iworkflow.contracts.contract import messages_of
from iworkflow.contracts.handles import AnyContract
from iworkflow.contracts.schemas import DIALECT, Schema, Schemas

GENERATOR = "iworkflow-contracts"
MANIFEST_VERSION = 1

Manifest = dict[str, Any]


class ManifestError(ValueError):
    """A file that should be a manifest is none, or one of another version."""


def manifest_of(contract: AnyContract) -> Manifest:
    """Describe a contract as data; the same contract always gives the same."""
    schemas = Schemas()
    described = {"description": contract.description} if contract.description else {}
    manifest: Manifest = {
        "$generator": GENERATOR,
        "manifestVersion": MANIFEST_VERSION,
        "schemaDialect": DIALECT,
        "name": contract.name,
        **described,
        "taskQueue": contract.task_queue,
        "workflowId": contract.id_template.text,
        "input": schemas.of(contract.input),
        "outcomes": {name: schemas.of(hint) for name, hint in contract.outcomes.items()},
        "start": next(iter(contract.states), None),
        "states": {name: _state(one) for name, one in contract.states.items()},
        "signals": _messages(contract, "signals", schemas),
        "queries": _messages(contract, "queries", schemas),
    }
    manifest["$defs"] = dict(sorted(schemas.definitions.items()))
    return manifest


def _state(state: Any) -> dict[str, Any]:
    described = {"description": state.description} if state.description else {}
    return {**described, "next": list(state.next)}


def _messages(contract: AnyContract, sort: str, schemas: Schemas) -> dict[str, Schema]:
    return {
        name: {"description": one.description, "schema": schemas.of(one.type)}
        for name, one in messages_of(contract, sort).items()
    }


def manifest_text(manifest: Manifest) -> str:
    """Write a manifest, byte for byte the same for the same manifest."""
    return json.dumps(manifest, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def is_manifest(data: object) -> bool:
    """Whether parsed JSON bears the generator's mark."""
    if not isinstance(data, dict):
        return False
    return cast("dict[str, object]", data).get("$generator") == GENERATOR


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        ManifestError: the file is none, or of a version that this package does not know.
        OSError: it cannot be read.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ManifestError(f"{path} is no JSON: {error}") from None
    if not is_manifest(data):
        raise ManifestError(f'{path} is no manifest: it has no "$generator": "{GENERATOR}"')
    version = data.get("manifestVersion")
    if version != MANIFEST_VERSION:
        raise ManifestError(
            f"{path} is a manifest of version {version!r}, and this package reads version "
            f"{MANIFEST_VERSION}; write it anew with the package that you use"
        )
    return cast("Manifest", data)


def read_manifests(folder: Path) -> Mapping[str, Manifest]:
    """Read all manifests of a folder, by the name of the contract; other files are left alone.

    Raises:
        ManifestError: there is none, or one that cannot be read.
    """
    if not folder.is_dir():
        raise ManifestError(f"{folder} is no folder of manifests")
    found: dict[str, Manifest] = {}
    for path in sorted(folder.glob("*.json")):
        if _bears_mark(path):
            manifest = read_manifest(path)
            found[str(manifest["name"])] = manifest
    if not found:
        raise ManifestError(f"{folder} holds no manifest; write them with --out {folder}")
    return found


def _bears_mark(path: Path) -> bool:
    try:
        return is_manifest(json.loads(path.read_text("utf-8")))
    except ValueError:
        return False


def manifest_schema() -> Schema:
    """Return the JSON Schema of a manifest."""
    text = files("iworkflow.contracts").joinpath("manifest.schema.json").read_text("utf-8")
    return cast("Schema", json.loads(text))
