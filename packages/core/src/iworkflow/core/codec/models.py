"""pydantic models, without a dependency on pydantic: they are met only where it is loaded."""

from __future__ import annotations

from typing import Any

from iworkflow.core.codec.digest import dumps
from iworkflow.core.codec.hints import is_a
from iworkflow.core.codec.scalars import Refused


def dump_model(value: Any, *, terse: bool) -> Any:
    """Dump a model by its aliases, its sets sorted, and make sure that it reads back equal."""
    settings: dict[str, Any] = {"by_alias": True, "exclude_defaults": terse}
    try:
        data = value.model_dump(mode="json", warnings=False, **settings)
        data = _sorted(value.model_dump(mode="python", warnings=False, **settings), data)
        fits = terse or load_model(type(value), data) == value
    except Exception as error:
        raise Refused(f"pydantic cannot write this {type(value).__name__}: {error}") from None
    if not fits:
        raise Refused(f"this {type(value).__name__} does not read back equal from its JSON")
    return data


def load_model(cls: Any, data: Any) -> Any:
    """Build a model from its JSON; pydantic's own error tells what does not fit."""
    return cls.model_validate_json(dumps(data))


def _sorted(native: Any, data: Any) -> Any:
    """Sort those lists of `data` that are sets in `native`."""
    if is_a(data, dict) and is_a(native, dict):
        pairs = zip(native.values(), data.items(), strict=True)
        return {key: _sorted(inner, item) for inner, (key, item) in pairs}
    if is_a(data, list) and is_a(native, list | tuple | set | frozenset):
        items = [_sorted(inner, item) for inner, item in zip(native, data, strict=True)]
        return sorted(items, key=dumps) if is_a(native, set | frozenset) else items
    return data
