"""Outcomes carry no tag on the wire: a value is the one outcome that it fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from iworkflow.contracts.errors import DECODE_ERROR, ENCODE_ERROR
from iworkflow.contracts.members import Field, choices_of, fields_of
from iworkflow.core.codec import decode, encode
from iworkflow.core.errors import Failure, non_retryable
from iworkflow.core.jsonvalue import JsonValue


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of a contract: name -> type."""

    contract: str
    types: Mapping[str, Any]

    def decode(self, value: JsonValue) -> tuple[str, Any]:
        """Read what a flow came to: the outcome's name and its value.

        Raises:
            Failure: type `DecodeError`, not retryable: the value fits no outcome, or two; names
                what each missed.
        """
        return self._only(lambda name, hint: decode(value, hint, where=name), DECODE_ERROR)

    def encode(self, value: object) -> tuple[str, JsonValue]:
        """Write what a flow returned, such that `decode` tells which outcome it is.

        Raises:
            Failure: type `EncodeError`, not retryable: it is no outcome, or could be two.
        """
        name, encoded = self._only(lambda name, hint: encode(value, hint, where=name), ENCODE_ERROR)
        read, _ = self.decode(encoded)
        if read != name:
            raise self._failure(f"{name!r} would be read as {read!r}", ENCODE_ERROR, {})
        return name, encoded

    def _only(self, attempt: Callable[[str, Any], Any], type: str) -> tuple[str, Any]:
        """Return the one outcome for which the attempt raises nothing."""
        found: dict[str, Any] = {}
        missed: dict[str, str] = {}
        for name, hint in self.types.items():
            try:
                found[name] = attempt(name, hint)
            except (Failure, TypeError) as error:
                missed[name] = str(error)
        if len(found) == 1:
            return next(iter(found.items()))
        if found:
            names = " and ".join(repr(name) for name in found)
            raise self._failure(f"the value fits {names} alike", type, missed)
        each = "; ".join(missed.values())
        raise self._failure(f"the value fits no outcome: {each}", type, missed)

    def _failure(self, why: str, type: str, missed: dict[str, str]) -> Failure:
        return non_retryable(
            f"outcome of contract {self.contract!r}: {why}", type=type, details=missed
        )


def alike_faults(types: Mapping[str, Any]) -> Iterator[str]:
    """Say which outcomes could be taken for one another."""
    for (one, first), (other, second) in combinations(types.items(), 2):
        if first == second:
            yield f"outcomes {one!r} and {other!r} are one class; give each its own"
            continue
        fields, others = fields_of(first), fields_of(second)
        if fields is not None and others is not None:
            yield from _pair_faults(one, other, fields, others)


def _pair_faults(
    one: str, other: str, fields: tuple[Field, ...], others: tuple[Field, ...]
) -> Iterator[str]:
    if _differing_choice(fields, others):
        return
    mine, theirs = _required(fields), _required(others)
    remedy = "give both a Literal member that differs, such as ok: Literal[True]"
    if mine == theirs:
        yield (
            f"outcomes {one!r} and {other!r} have the same required fields and no Literal that "
            f"differs; {remedy}"
        )
    elif mine < theirs or theirs < mine:
        small, large = (one, other) if mine < theirs else (other, one)
        yield f"outcome {large!r} would also be read as {small!r}; {remedy}"


def _required(fields: tuple[Field, ...]) -> frozenset[str]:
    return frozenset(field.key for field in fields if field.required)


def _differing_choice(fields: tuple[Field, ...], others: tuple[Field, ...]) -> bool:
    theirs = {field.key: field for field in others if field.always}
    for field in fields:
        if field.always and field.key in theirs:
            mine, other = choices_of(field.hint), choices_of(theirs[field.key].hint)
            if mine is not None and other is not None and not mine & other:
                return True
    return False
