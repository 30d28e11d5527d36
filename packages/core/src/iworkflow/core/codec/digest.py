"""Deterministic JSON text, its size and its fingerprint."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from iworkflow.core.errors import non_retryable
from iworkflow.core.jsonvalue import JsonValue

DEFAULT_MAX_PAYLOAD = 2 * 1024 * 1024 - 2048
"""The largest encoded value that an engine is given, in bytes.

Temporal's own limit is 2 MiB for all that an event carries, and its envelope needs some of them.
"""

_DIGITS = 16


def dumps(value: JsonValue) -> bytes:
    """Write a JSON value as compact UTF-8, members in the order in which they stand."""
    return _text(value).encode()


def _text(value: JsonValue, *, sort: bool = False) -> str:
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort
    )


def loads(data: bytes | str) -> Any:
    """Read a JSON text."""
    return json.loads(data)


def fingerprint(value: JsonValue) -> str:
    """Tell JSON values apart in 16 hex digits; the order of members does not matter."""
    return hashlib.sha256(_text(value, sort=True).encode()).hexdigest()[:_DIGITS]


def check_size(value: JsonValue, limit: int, *, where: str) -> None:
    """Refuse a value that is too large for the engines.

    Raises:
        Failure: type `PayloadTooLarge`, not retryable.
    """
    size = len(dumps(value))
    if size > limit:
        raise non_retryable(
            f"{where}: {size} bytes encoded, over the limit of {limit}; "
            "store the value elsewhere and pass a reference",
            type="PayloadTooLarge",
            details={"size": size, "limit": limit},
        )
