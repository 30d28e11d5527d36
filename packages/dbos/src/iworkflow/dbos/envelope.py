"""What stands at one place of a run's history: a record, as a JSON envelope.

DBOS keeps the envelope as the output of a step, so a step never raises through DBOS, and a reader
of its tables or of another language sees plain JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from iworkflow.core.errors import ErrorData
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import Completion, Operation, Outcome, Record

Envelope = dict[str, JsonValue]

ORDER = "order"
FOREIGN = "foreign"
PORTABLE = "portable_json"


def pack(operation: Operation, outcome: Outcome, at: float) -> Envelope:
    """Build the envelope of an operation's completion."""
    envelope: Envelope = {"kind": operation.kind, "name": operation.name, "at": at}
    if operation.digest:
        envelope["digest"] = operation.digest
    if outcome.error is not None:
        envelope["error"] = outcome.error.to_json()
    else:
        envelope["value"] = outcome.value
    return envelope


def pack_order(order: Sequence[int], at: float) -> Envelope:
    """Build the envelope of an order record."""
    return {"kind": ORDER, "at": at, "order": list(order)}


def unpack(envelope: Mapping[str, Any]) -> Record:
    """Read an envelope back."""
    error = envelope.get("error")
    outcome = Outcome(
        value=envelope.get("value"),
        error=None if error is None else ErrorData.from_json(error),
    )
    return Record(
        kind=str(envelope["kind"]),
        name=str(envelope.get("name", "")),
        digest=str(envelope.get("digest", "")),
        completion=Completion(outcome, float(envelope["at"])),
        order=tuple(envelope.get("order", ())),
    )


def read_row(name: str, output: str | None, serialization: str | None) -> Record:
    """Read a row of DBOS's history.

    A row that we did not write becomes a record of kind `foreign`, which fits no operation: the
    run is parked by it and loses nothing.
    """
    if output is not None and serialization == PORTABLE:
        value = json.loads(output)
        if isinstance(value, dict) and "kind" in value and "at" in value:
            return unpack(cast("dict[str, Any]", value))
    return Record(kind=FOREIGN, name=name, digest="", completion=Completion(Outcome(), 0.0))
