"""The values that cross the port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

JsonValue = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
"""A plain JSON value, as `json.loads` builds it."""
