"""Why a run is parked: its code does not fit its history."""

from __future__ import annotations

from collections.abc import Sequence

from iworkflow.core.flow.order import ORDER
from iworkflow.core.port import Operation, Record

REMEDY = "restore the order or guard the change with ctx.patched(...)"
_NOUNS = {
    "start-child": "child",
    "await-run": "wait for run",
    "now": "now()",
    "set-state": "state",
}


class Parked(Exception):
    """The run cannot go on under this code. The text follows the run's name."""


def mismatch(place: int, record: Record, operation: Operation) -> Parked | None:
    """Compare what is recorded at a place with what the code asks for there."""
    recorded = record.kind, record.name, record.digest
    asked = operation.kind, operation.name, operation.digest
    if recorded == asked:
        return None
    if recorded[:2] == asked[:2]:
        what = f"recorded {label(record)} with other arguments"
    elif record.kind == operation.kind:
        what = f"recorded {label(record)}, the code asks for {operation.name!r}"
    else:
        what = f"recorded {label(record)}, the code asks for {label(operation)}"
    return Parked(f"parked at operation {place}: {what}; {REMEDY}")


def no_place_for_order(place: int, record: Record) -> Parked:
    """The code reached an order record's place with an operation, or the reverse."""
    return Parked(
        f"parked at operation {place}: recorded {label(record)}, the code is elsewhere; {REMEDY}"
    )


def left_over(place: int, record: Record, waits: Sequence[Operation]) -> Parked:
    """The history goes on where the code does not."""
    asked = f"waits for {', '.join(label(w) for w in waits[:3])}" if waits else "ends before it"
    return Parked(
        f"parked at operation {place}: recorded {label(record)}, the code {asked}; {REMEDY}"
    )


def stalled(places: Sequence[str]) -> Parked:
    """The flow waits, and nothing is in the air that could wake it."""
    where = ", ".join(places) or "a place unknown"
    return Parked(f"can never go on: it awaits {where}, and no operation is in the air")


def label(item: Record | Operation) -> str:
    """Name an operation as its author would."""
    if item.kind == ORDER:
        return "an order of completions"
    noun = _NOUNS.get(item.kind, item.kind)
    return f"{noun} {item.name!r}" if item.name else noun
