# ruff: noqa: DTZ001, ISC004
"""What the codec says when a value cannot be written or read."""

from collections import deque
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import msgspec
import pytest

from iworkflow.core.codec import ANY, check_size, decode, encode
from iworkflow.core.errors import Failure


class Colour(Enum):
    RED = "red"


@dataclass
class Lead:
    name: str
    tags: list[str] = field(default_factory=list)
    next: "Lead | None" = None


@dataclass
class VipLead(Lead):
    rank: int = 0


class Plain(msgspec.Struct):
    a: int


class MorePlain(Plain):
    b: int


class Pair(NamedTuple):
    left: int


class WidePair(Pair):
    pass


class Movie(TypedDict):
    title: str


Positive = Annotated[int, msgspec.Meta(ge=1)]
PositiveId = NewType("PositiveId", Positive)


class Strange:
    pass


class Lying(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


def _cycle() -> list[Any]:
    value: list[Any] = []
    value.append({"again": value})
    return value


def _lead_cycle() -> Lead:
    lead = Lead("a")
    lead.next = Lead("b", next=lead)
    return lead


def _deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


SECONDS = timezone(timedelta(seconds=30))

REFUSED: list[tuple[Any, Any, str]] = [
    (Lead("a", ["x", b"y"]), Lead, "lead.tags[1]: expected str, got bytes"),  # type: ignore[list-item]
    (Lead("a", next=Lead(3)), Lead, "lead.next.name: expected str, got int"),  # type: ignore[arg-type]
    (float("nan"), float, "lead: nan is not a JSON number and cannot be encoded"),
    ([float("-inf")], ANY, "lead[0]: -inf is not a JSON number and cannot be encoded"),
    (Decimal("NaN"), Decimal, "lead: Decimal('NaN') is not a number and cannot be encoded"),
    (2**64, int, "lead: an integer beyond 64 bits (65 bits) cannot be encoded"),
    ({"n": -(2**63) - 1}, ANY, "lead['n']: an integer beyond 64 bits (64 bits) cannot be encoded"),
    (2**53 + 1, float, "lead: expected float, got int"),
    (True, int, "lead: expected int, got bool"),
    (1, bool, "lead: expected bool, got int"),
    (1.0, int, "lead: expected int, got float"),
    (1, str, "lead: expected str, got int"),
    (None, str, "lead: expected str, got NoneType"),
    (datetime(2024, 1, 1), date, "lead: expected date, got datetime"),
    (date(2024, 1, 1), datetime, "lead: expected datetime, got date"),
    (
        time(1, tzinfo=SECONDS),
        time,
        "lead: a time whose UTC offset has seconds cannot be encoded",
    ),
    (
        datetime.min.replace(tzinfo=SECONDS),
        datetime,
        f"lead: {datetime.min.replace(tzinfo=SECONDS)!r} cannot be written in UTC",
    ),
    (
        "\ud800",
        str,
        "lead: a string with a lone surrogate is not text and cannot be encoded",
    ),
    (
        {"\ud800": 1},
        ANY,
        "lead: a string with a lone surrogate is not text and cannot be encoded",
    ),
    (
        Lying("x"),
        str,
        "lead: expected str: an instance of Lying would not come back equal",
    ),
    ("blue", Colour, "lead: expected Colour, got str"),
    ("b", Literal["a", 1], "lead: expected Literal['a', 1], got 'b'"),
    (True, Literal[1], "lead: expected Literal[1], got True"),
    (
        VipLead("a"),
        Lead,
        "lead: expected Lead, got its subclass VipLead, whose own members would be lost; "
        "give exactly a Lead, or hint a union of tagged Structs",
    ),
    (
        [MorePlain(1, 2)],
        list[Plain | None],
        "lead[0]: expected Plain, got its subclass MorePlain, whose own members would be lost; "
        "give exactly a Plain, or hint a union of tagged Structs",
    ),
    (
        WidePair(1),
        Pair,
        "lead: expected Pair, got its subclass WidePair, whose own members would be lost; "
        "give exactly a Pair, or hint a union of tagged Structs",
    ),
    ({"a": 1}, Lead, "lead: expected Lead, got dict"),
    ([1], Plain, "lead: expected Plain, got list"),
    (_cycle(), ANY, "lead[0]['again']: this list contains itself and cannot be encoded"),
    (_lead_cycle(), Lead, "lead.next.next: this Lead contains itself and cannot be encoded"),
    (_deep(), ANY, "lead: list is nested too deeply"),
    (
        {1: "a"},
        ANY,
        "lead: the key 1 is of type int; without a hint keys must be str, "
        "with one such as dict[int, ...] they need not",
    ),
    ({"a": 1}, dict[int, int], "lead (key 'a'): expected int, got str"),
    ({1: "a"}, dict[int, int], "lead[1]: expected int, got str"),
    (Strange(), ANY, f"lead: cannot encode an object of type {__name__}.Strange"),
    ([1, {"k": object()}], ANY, "lead[1]['k']: cannot encode an object of type object"),
    (deque([1]), ANY, "lead: cannot encode an object of type collections.deque"),
    (1j, ANY, "lead: cannot encode an object of type complex"),
    (Strange(), Strange, "lead: the codec does not know the hint Strange"),
    (1.5, int | str, "lead: expected int | str, got float"),
    (Lead("a", next=Strange()), Lead | None, "lead.next: expected Lead | None, got Strange"),  # type: ignore[arg-type]
    ((1,), list[int], "lead: expected list[int], got tuple"),
    ([1], tuple[int], "lead: expected tuple[int], got list"),
    ((1, 2), tuple[int], "lead: expected tuple[int], got a tuple of 2"),
    (("a",), tuple[int, ...], "lead[0]: expected int, got str"),
    ([1], set[int], "lead: expected set[int], got list"),
    ({"x"}, set[int], "lead{'x'}: expected int, got str"),
    ({(1, 2)}, set, "lead{(1, 2)}: a tuple in a set without a hint would not read back"),
    ([("a", 1)], dict[str, int], "lead: expected dict[str, int], got list"),
    (1, Movie, "lead: expected Movie, got int"),
    ({}, Movie, "lead: Movie lacks the member 'title'"),
    ({"title": "t", "x": 1}, Movie, "lead: Movie has no member 'x'"),
    ({"title": 1}, Movie, "lead['title']: expected str, got int"),
    (0, Positive, "lead: Expected int >= 1"),
    ([1, 0], list[Positive], "lead[1]: Expected int >= 1"),
    (0, PositiveId, "lead: Expected int >= 1"),
]


@pytest.mark.parametrize(
    ("value", "hint", "message"), REFUSED, ids=[one[2][:50] for one in REFUSED]
)
def test_a_value_that_would_not_come_back_is_refused(value: Any, hint: Any, message: str) -> None:
    """TypeError names the place, the path and the types."""
    with pytest.raises(TypeError) as caught:
        encode(value, hint, where="step 'compose': lead")
    assert str(caught.value) == f"step 'compose': {message}"


def test_a_tuple_for_a_sequence_is_refused_with_the_reason() -> None:
    """A Sequence reads back as a list, so that a tuple would not come back equal."""
    from collections.abc import Sequence

    with pytest.raises(TypeError) as caught:
        encode((1,), Sequence[int], where="lead")
    assert str(caught.value) == ("lead: Sequence[int] reads back as a list: give a list, not tuple")


def test_a_member_that_is_not_set_is_named() -> None:
    """A dataclass whose member was deleted is refused, naming the member."""
    lead = Lead("a")
    del lead.name
    with pytest.raises(TypeError, match=r"^lead\.name: is not set$"):
        encode(lead, Lead, where="lead")


def test_a_path_is_set_off_from_a_place_that_is_no_name() -> None:
    """Where `where` ends in a quote, the path begins with `value`."""
    with pytest.raises(TypeError, match=r"^message for topic 'x': value\[0\]: cannot encode"):
        encode([object()], where="message for topic 'x'")


MISFITS: list[tuple[Any, Any, str, str]] = [
    (
        {"name": "a", "tags": ["b", 3]},
        Lead,
        "lead.tags[1]: Expected str, got int; it was read as Lead",
        ".tags[1]",
    ),
    ({}, Lead, "lead: Object missing required field name; it was read as Lead", ""),
    (["x"], list[int], "lead[0]: Expected int, got str; it was read as list[int]", "[0]"),
    ("green", Colour, "lead: Invalid enum value 'green'; it was read as Colour", ""),
    (None, int, "lead: Expected int, got null; it was read as int", ""),
    (
        {"x": 1},
        dict[int, int],
        "lead (a key): Expected int, got str; it was read as dict[int, int]",
        " (a key)",
    ),
]


@pytest.mark.parametrize(("value", "hint", "message", "path"), MISFITS)
def test_a_stored_value_that_no_longer_fits(value: Any, hint: Any, message: str, path: str) -> None:
    """Failure `DecodeError` names the place, the path and the hint, and is final."""
    with pytest.raises(Failure) as caught:
        decode(value, hint, where="step 'compose': lead")
    assert caught.value.message == f"step 'compose': {message}"
    assert caught.value.type == "DecodeError"
    assert caught.value.non_retryable
    assert caught.value.details["path"] == path


def test_reading_as_a_type_that_the_codec_does_not_know() -> None:
    """A hint that cannot be read is the caller's mistake: TypeError, not DecodeError."""
    with pytest.raises(TypeError, match=r"^result: the codec cannot read back deque: "):
        decode([], deque, where="result")


def test_a_payload_over_the_limit() -> None:
    """Failure `PayloadTooLarge` counts bytes as encoded, and is final; at the limit it passes."""
    check_size("ä" * 4, 10, where="x")
    with pytest.raises(Failure) as caught:
        check_size("ä" * 4, 9, where="arguments of step 'compose'")
    assert caught.value.type == "PayloadTooLarge"
    assert caught.value.non_retryable
    assert caught.value.details == {"size": 10, "limit": 9}
    assert caught.value.message == (
        "arguments of step 'compose': 10 bytes encoded, over the limit of 9; "
        "store the value elsewhere and pass a reference"
    )
