"""The outcome of a run, as an activity of ours gives it to a flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iworkflow.core.errors import ErrorData
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import Outcome

Envelope = dict[str, JsonValue]


def outcome_to_json(outcome: Outcome) -> Envelope:
    """Return the wire form of an outcome."""
    if outcome.error is not None:
        return {"error": outcome.error.to_json()}
    return {"value": outcome.value}


def outcome_from_json(data: Mapping[str, Any]) -> Outcome:
    """Read the wire form."""
    error = data.get("error")
    if error is not None:
        return Outcome(error=ErrorData.from_json(error))
    return Outcome(data.get("value"))
