"""Values on the wire: JSON by core's codec, as `json/plain`, readable in Temporal's UI.

What crosses the port is JSON already, so nothing here knows a type. `binary/null`, which other
SDKs write for nothing, is read as None.
"""

from __future__ import annotations

from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    BinaryNullPayloadConverter,
    CompositePayloadConverter,
    EncodingPayloadConverter,
)

from iworkflow.core.codec import dumps, loads


class _Json(EncodingPayloadConverter):
    @property
    def encoding(self) -> str:
        return "json/plain"

    def to_payload(self, value: Any) -> Payload | None:
        return Payload(metadata={"encoding": b"json/plain"}, data=dumps(value))

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        return loads(payload.data)


class JsonPayloads(CompositePayloadConverter):
    """The payload converter of this adapter."""

    def __init__(self) -> None:
        super().__init__(_Json(), BinaryNullPayloadConverter())
