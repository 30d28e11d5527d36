# ruff: noqa: DTZ001, DTZ901, PYI051, PYI061, UP007, UP045  # every spelling of a hint is meant
"""The codec: what is written, and that it reads back equal."""

import subprocess
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag, StrEnum
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import msgspec
import pytest

from iworkflow.core.codec import ANY, check_hint, decode, dumps, encode, fingerprint, loads

T = TypeVar("T")
LeadId = NewType("LeadId", int)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "yes"


class Access(IntFlag):
    READ = 1
    WRITE = 2


@dataclass
class Address:
    street: str
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    name: str
    score: float = 0.5
    tags: list[str] = field(default_factory=list)
    addresses: dict[str, Address] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@dataclass
class Node:
    value: int
    children: "list[Node]" = field(default_factory=list)
    parent: "Node | None" = None


@dataclass
class Box(Generic[T]):
    item: T
    more: list[T] = field(default_factory=list)


@dataclass
class DateBox(Box[date]):
    label: str = ""


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Plain(msgspec.Struct):
    a: int
    b: str = "b"


class Renamed(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    first_name: str = "x"
    last_name: str


class Arrayed(msgspec.Struct, array_like=True):
    a: int
    b: date


class TaggedArray(msgspec.Struct, tag=True, array_like=True):
    a: int


class OtherTaggedArray(msgspec.Struct, tag=True, array_like=True):
    a: str


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag="hound"):
    name: str


class SmallCat(Cat, tag="small"):
    weight: float


class Lazy(msgspec.Struct):
    a: int | msgspec.UnsetType = msgspec.UNSET


class GenericStruct(msgspec.Struct, Generic[T]):
    item: T


PLUS = timezone(timedelta(hours=5, minutes=30))
ODD = timezone(timedelta(hours=1, seconds=30))

CASES: list[tuple[Any, Any]] = [
    (int, 2**64 - 1),
    (int, -(2**63)),
    (float, 1.5),
    (float, -0.0),
    (float, 1e300),
    (bool, True),
    (None, None),
    (str, "ä \u0000 \U0001f600 \u2028"),
    (bytes, b"\x00\xff"),
    (bytearray, bytearray(b"ab")),
    (datetime, datetime(2024, 2, 29, 1, 2, 3, 4)),
    (datetime, datetime(2024, 2, 29, tzinfo=UTC)),
    (datetime, datetime(2024, 2, 29, tzinfo=PLUS)),
    (datetime, datetime(2024, 2, 29, 5, tzinfo=ODD)),
    (datetime, datetime.min),
    (datetime, datetime.max),
    (date, date(1, 1, 1)),
    (time, time(1, 2, 3, 4)),
    (time, time(23, 59, tzinfo=PLUS)),
    (timedelta, timedelta(0)),
    (timedelta, timedelta.max),
    (timedelta, timedelta.min),
    (timedelta, timedelta(days=-1, microseconds=7)),
    (Decimal, Decimal("1E+5")),
    (Decimal, Decimal("-0.00")),
    (UUID, UUID(int=7)),
    (Colour, Colour.BLUE),
    (Level, Level.HIGH),
    (Word, Word.YES),
    (Access, Access.READ | Access.WRITE),
    (Access, Access(0)),
    (list, [1, "a", None, {"k": [1.5]}]),
    (list[date], [date(2024, 1, 1)]),
    (Sequence[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (tuple[Point, ...], (Point(1, 2), Point(3, 4))),
    (tuple[()], ()),
    (tuple, (1, "a")),
    (set[int], {3, 1, 2}),
    (set[Colour], set(Colour)),
    (frozenset[tuple[int, str]], frozenset({(1, "a"), (0, "z")})),
    (frozenset[frozenset[int]], frozenset({frozenset({1, 2}), frozenset({2, 3})})),
    (set[Point], {Point(1, 2), Point(0, 5)}),
    (AbstractSet[int], frozenset({1})),
    (dict, {"a": [1]}),
    (dict[str, Point], {"p": Point(1, 2)}),
    (dict[int, str], {-1: "a", 10: "b"}),
    (dict[float, int], {1.0: 1, 1e22: 2, -0.5: 3}),
    (dict[UUID, int], {UUID(int=1): 1}),
    (dict[Colour, int], {Colour.RED: 1}),
    (dict[Level, int], {Level.LOW: 1}),
    (dict[date, int], {date(2024, 1, 1): 1}),
    (dict[datetime, int], {datetime(2024, 1, 1, tzinfo=UTC): 1}),
    (dict[timedelta, int], {timedelta(days=-3, seconds=5): 1}),
    (dict[Decimal, int], {Decimal("1.50"): 1}),
    (dict[bytes, int], {b"\xff": 1}),
    (dict[Literal["a", "b"], int], {"a": 1}),
    (dict[LeadId, int], {LeadId(5): 1}),
    (Mapping[str, int], {"a": 1}),
    (dict[str, int], OrderedDict(a=1)),
    (dict[str, int], defaultdict(int, a=1)),
    (Address, Address("s", 3)),
    (Lead, Lead(name="n", tags=["t"], addresses={"home": Address("s")})),
    (Node, Node(1, [Node(2), Node(3, [Node(4)])], Node(0))),
    (Box[int], Box(1, [2])),
    (Box[Point], Box(Point(1, 2), [Point(3, 4)])),
    (Box[list[Colour]], Box([Colour.RED])),
    (DateBox, DateBox(date(2024, 1, 1), [], "x")),
    (Box, Box("plain", [{"a": 1}])),
    (GenericStruct[date], GenericStruct(date(2024, 1, 1))),
    (Pair, Pair(1, "a")),
    (list[Pair], [Pair(1), Pair(2, "b")]),
    (Movie, {"title": "t"}),
    (Movie, {"title": "t", "year": 1}),
    (Plain, Plain(1)),
    (Renamed, Renamed(last_name="l")),
    (Arrayed, Arrayed(1, date(2024, 1, 1))),
    (Cat | Dog, Cat(9)),
    (Cat | Dog | None, Dog("d")),
    (Cat | SmallCat, SmallCat(9, 1.5)),
    (Lazy, Lazy()),
    (Lazy, Lazy(1)),
    (int | None, None),
    (Optional[Lead], Lead(name="n")),
    (Lead | list[Lead] | str | int | None, [Lead(name="n")]),
    (int | float, 1),
    (int | float, 1.0),
    (bool | int, True),
    (bool | int, 1),
    (date | int, date(2024, 1, 1)),
    (Decimal | int, Decimal("1.5")),
    (Decimal | int, 3),
    (Literal[1, "a", None], None),
    (Literal[True, 2], True),
    (Literal["a"] | int, "a"),
    (Union[Literal["a"], str], "b"),
    (LeadId, LeadId(3)),
    (Annotated[int, "note"], 3),
    (Annotated[int, msgspec.Meta(ge=1)], 3),
    (Decimal | float, Decimal("1.5")),
    (Decimal | float, 1.5),
    (TaggedArray | OtherTaggedArray, OtherTaggedArray("x")),
    (Final[int], 3),
    (Any, {"a": [1, None, True, 1.5, "x"]}),
    (object, [1]),
    (ANY, {"a": {"b": []}}),
    (dict[str, Any], {"a": [1, {"b": None}]}),
    (TypeVar("V", bound=int), 3),
]


@pytest.mark.parametrize(("hint", "value"), CASES, ids=lambda one: str(one)[:40])
def test_a_value_reads_back_equal(hint: Any, value: Any) -> None:
    """What is encoded by a hint is decoded to an equal value of the same class, over text."""
    check_hint(hint, where="test")
    back = decode(loads(dumps(encode(value, hint, where="test"))), hint, where="test")
    assert back == value
    if not isinstance(value, OrderedDict | defaultdict | frozenset):
        assert type(back) is type(value)


@pytest.mark.parametrize("base", [str, int, float, bytes, datetime, date, Decimal, timedelta, UUID])
def test_a_subclass_of_a_plain_class_reads_back_as_the_plain_one(base: Any) -> None:
    """It has nothing to lose: the plain value is equal."""
    plain = {
        bytes: b"x",
        datetime: datetime(2024, 1, 1, tzinfo=UTC),
        date: date(2024, 1, 1),
        timedelta: timedelta(days=1, microseconds=3),
        UUID: UUID(int=5),
    }.get(base) or base("7")
    below = type("Below", (base,), {})
    match plain:
        case datetime():
            value = below.fromisoformat(plain.isoformat())
        case date():
            value = below(plain.year, plain.month, plain.day)
        case timedelta():
            value = below(plain.days, plain.seconds, plain.microseconds)
        case UUID():
            value = below(int=plain.int)
        case _:
            value = below(plain)
    for hint in (base, base | None):
        back = decode(encode(value, hint, where="t"), hint, where="t")
        assert back == plain
        assert type(back) is base
    assert encode(value, where="t") == encode(plain, where="t")


def test_elements_keep_their_class() -> None:
    """True stays a bool next to 1, and 1.0 a float, where the hint tells them apart."""
    back = decode(encode([True, 1, 1.0], list[bool | int | float], where="t"), list, where="t")
    assert [type(item) for item in back] == [bool, int, float]


@pytest.mark.parametrize(
    ("value", "hint", "wire"),
    [
        (Lead(name="n"), Lead, {"name": "n", "score": 0.5, "tags": [], "addresses": {}}),
        (Renamed(last_name="l"), Renamed, {"firstName": "x", "lastName": "l"}),
        (Cat(9), Cat | Dog, {"type": "Cat", "lives": 9}),
        (Dog("d"), Dog, {"type": "hound", "name": "d"}),
        (Arrayed(1, date(2024, 1, 2)), Arrayed, [1, "2024-01-02"]),
        (Pair(1), Pair, [1, "r"]),
        (Lazy(), Lazy, {}),
        ({3, 20, 100}, set[int], [100, 20, 3]),
        ({"b", "a"}, set[str], ["a", "b"]),
        (timedelta(days=1, seconds=1, microseconds=5), timedelta, "P1DT1.000005S"),
        (timedelta(seconds=-1), timedelta, "-PT1S"),
        (b"ab", bytes, "YWI="),
        (1, float, 1.0),
        (Movie(title="t"), Movie, {"title": "t"}),
    ],
)
def test_the_wire_form(value: Any, hint: Any, wire: Any) -> None:
    """The JSON is what other languages expect: names, tags, ISO 8601, base64, sorted sets."""
    encoded = encode(value, hint, where="test")
    assert dumps(encoded) == dumps(wire)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Address("s", 3), {"street": "s", "number": 3}),
        ((1, (2,)), [1, [2]]),
        ({"b", "a"}, ["a", "b"]),
        (date(2024, 1, 1), "2024-01-01"),
        (Colour.RED, "red"),
        (Level.LOW, 1),
        ([Pair(1, "a")], [[1, "a"]]),
        ({Word.YES: 1}, {"yes": 1}),
        ({"x": Cat(9)}, {"x": {"type": "Cat", "lives": 9}}),
        (Decimal("1.5"), "1.5"),
    ],
)
def test_without_a_hint_a_value_reads_back_as_plain_json(value: Any, plain: Any) -> None:
    """A value without a hint is encoded by its own class and comes back as JSON."""
    assert decode(encode(value, where="t"), where="t") == plain


def test_encoding_is_the_same_in_every_process() -> None:
    """The order of a set of strings does not depend on the process's hash seed."""
    code = (
        "from iworkflow.core.codec import dumps, encode;"
        "print(dumps(encode(set('abcdefgh'), set[str], where='t')).decode())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert outputs == {'["a","b","c","d","e","f","g","h"]\n'}


def test_the_encoded_value_shares_nothing_with_the_value() -> None:
    """A later change of the value does not reach what was encoded, nor the other way round."""
    value = {"a": [1]}
    encoded = encode(value, where="t")
    value["a"].append(2)
    decoded = decode(encoded, where="t")
    decoded["a"].append(3)
    typed = decode(encoded, dict[str, Any], where="t")
    typed["a"].append(4)
    assert encoded == {"a": [1]}


def test_the_same_object_twice_is_no_cycle() -> None:
    """A value that holds one object at two places is written twice."""
    shared = [1]
    assert encode([shared, shared], where="t") == [[1], [1]]


def test_a_fingerprint_leaves_the_order_of_members_out() -> None:
    """Members in another order give the same fingerprint; another value another one."""
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 1.5})
    assert len(fingerprint(None)) == 16
