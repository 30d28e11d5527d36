# ruff: noqa: UP007, UP045  # every spelling of a hint is meant
"""Random values of random types read back equal."""

import enum
import random
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import (
    Annotated,
    Any,
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

import attrs
import msgspec
import pydantic
from hypothesis import given, settings
from hypothesis import strategies as st

from iworkflow.core.codec import check_hint, decode, dumps, encode, encode_terse, loads

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = -1
    HIGH = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0


@dataclass
class Box(Generic[T]):
    item: T
    more: list[T] = field(default_factory=list)


@dataclass
class Node:
    value: int
    children: "list[Node]" = field(default_factory=list)


class Pair(NamedTuple):
    left: str
    right: date | None = None


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Cat(msgspec.Struct, tag=True, frozen=True):
    lives: int


class Dog(msgspec.Struct, tag=True, frozen=True, array_like=False, rename="upper"):
    name: str = "rex"
    born: date | None = None


class Word(enum.StrEnum):
    YES = "yes"
    NO = "no"


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2


class Leaf(msgspec.Struct, tag=True, frozen=True):
    word: Word


class Fork(msgspec.Struct, tag=True, frozen=True):
    left: "Leaf | Fork"
    right: "Leaf | Fork"


class Link(msgspec.Struct, Generic[T], frozen=True):
    item: T
    following: "Link[T] | None" = None


class Both(NamedTuple, Generic[T]):
    one: T
    other: tuple[T, ...] = ()


class Holder(TypedDict, Generic[T]):
    item: T
    more: NotRequired[list[T]]


@attrs.frozen
class Parcel:
    weight: Decimal
    sent: date | None = None
    inside: "Parcel | None" = None


@attrs.frozen
class Wrapped(Generic[T]):
    item: T


class Letter(pydantic.BaseModel):
    """Bytes that are no text need this of a model: pydantic's own default refuses them."""

    model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    to: str
    parts: "list[Letter]" = []
    price: Decimal = Decimal(0)
    at: datetime | None = None
    raw: bytes = b""


Name = NewType("Name", str)
Count = NewType("Count", Annotated[int, msgspec.Meta(ge=1)])

OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda n: timezone(timedelta(minutes=n)))
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
INTS = st.integers(-(2**63), 2**64 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
POINTS = st.builds(Point, INTS, FLOATS)

SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: INTS,
    float: FLOATS,
    bool: st.booleans(),
    str: TEXT,
    bytes: st.binary(),
    date: st.dates(),
    datetime: st.datetimes() | st.datetimes(timezones=st.just(UTC) | OFFSETS),
    time: st.times() | st.times(timezones=OFFSETS),
    timedelta: st.timedeltas(),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    UUID: st.uuids(),
    Colour: st.sampled_from(Colour),
    Level: st.sampled_from(Level),
    Point: POINTS,
    Pair: st.builds(Pair, TEXT, st.none() | st.dates()),
    Cat | Dog: st.builds(Cat, INTS) | st.builds(Dog, TEXT, st.none() | st.dates()),
    Literal["a", 3] | None: st.sampled_from(["a", 3, None]),
    int | float | bool | None: INTS | FLOATS | st.booleans() | st.none(),
    Word: st.sampled_from(Word),
    Access: st.sampled_from([Access(n) for n in range(4)]),
    Name: TEXT,
    Count: st.integers(1, 2**63),
    Annotated[date, "noted"]: st.dates(),
    Optional[UUID]: st.none() | st.uuids(),
    Union[int, Word, None]: INTS | st.sampled_from(Word) | st.none(),
    bool | Decimal: st.booleans() | st.decimals(allow_nan=False, allow_infinity=False),
    Leaf | Fork: st.recursive(
        st.builds(Leaf, st.sampled_from(Word)),
        lambda inner: st.builds(Fork, inner, inner),
        max_leaves=4,
    ),
    Parcel: st.recursive(
        st.builds(Parcel, st.decimals(allow_nan=False, allow_infinity=False)),
        lambda inner: st.builds(Parcel, st.just(Decimal("1.50")), st.dates(), inner),
        max_leaves=3,
    ),
}
KEYS = [int, float, str, bytes, date, datetime, timedelta, Decimal, UUID, Colour, Level]
KEYS += [Word, Name, Count]
LETTERS = st.recursive(
    st.builds(Letter, to=TEXT, price=st.decimals(0, 9, places=2), raw=st.binary(max_size=4)),
    lambda inner: st.builds(Letter, to=TEXT, parts=st.lists(inner, max_size=2)),
    max_leaves=3,
)
MOVIES = st.fixed_dictionaries({"title": TEXT}, optional={"year": INTS})
NODES: st.SearchStrategy[Node] = st.recursive(
    st.builds(Node, INTS), lambda inner: st.builds(Node, INTS, st.lists(inner)), max_leaves=5
)

Typed = tuple[Any, st.SearchStrategy[Any]]


def _leaves() -> st.SearchStrategy[Typed]:
    scalars = st.sampled_from([*SCALARS.items()])
    more = [(Movie, MOVIES), (Node, NODES), (Letter, LETTERS)]
    return scalars | st.sampled_from(more)


def _wider(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    scalars = st.sampled_from([*SCALARS.items()])
    keys = st.sampled_from([(key, SCALARS[key]) for key in KEYS])
    return st.one_of(
        inner.map(lambda one: (list[one[0]], st.lists(one[1], max_size=3))),
        inner.map(lambda one: (tuple[one[0], ...], st.lists(one[1], max_size=3).map(tuple))),
        st.tuples(inner, inner).map(
            lambda two: (tuple[two[0][0], two[1][0]], st.tuples(two[0][1], two[1][1]))
        ),
        scalars.map(lambda one: (set[one[0]], st.sets(one[1], max_size=3))),
        scalars.map(lambda one: (frozenset[one[0]], st.frozensets(one[1], max_size=3))),
        st.tuples(keys, inner).map(
            lambda two: (
                dict[two[0][0], two[1][0]],
                st.dictionaries(two[0][1], two[1][1], max_size=3),
            )
        ),
        inner.map(lambda one: (one[0] | None, st.none() | one[1])),
        inner.map(lambda one: (Optional[one[0]], st.none() | one[1])),
        inner.map(lambda one: (Annotated[one[0], "noted"], one[1])),
        inner.map(lambda one: (Box[one[0]], st.builds(Box, one[1], st.lists(one[1], max_size=2)))),
        inner.map(_link),
        inner.map(lambda one: (Wrapped[one[0]], st.builds(Wrapped, one[1]))),
        inner.map(lambda one: (Both[one[0]], st.builds(Both, one[1], st.tuples(one[1])))),
        inner.map(_holder),
    )


def _link(one: Typed) -> Typed:
    last = st.builds(Link, one[1])
    return Link[one[0]], last | st.builds(Link, one[1], last)


def _holder(one: Typed) -> Typed:
    values = st.fixed_dictionaries(
        {"item": one[1]}, optional={"more": st.lists(one[1], max_size=2)}
    )
    return Holder[one[0]], values


TYPES = st.recursive(_leaves(), _wider, max_leaves=4)


@st.composite
def _typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    hint, values = draw(TYPES)
    return hint, draw(values)


@settings(max_examples=300, deadline=None)
@given(_typed_values())
def test_any_value_of_any_type_reads_back_equal(typed: tuple[Any, Any]) -> None:
    """Whatever its type is made of, a value comes back equal over JSON text, always the same."""
    hint, value = typed
    check_hint(hint, where="t")
    text = dumps(encode(value, hint, where="t"))
    back = decode(loads(text), hint, where="t")
    assert back == value
    assert type(back) is type(value)
    assert dumps(encode(back, hint, where="t")) == text


@settings(max_examples=100, deadline=None)
@given(_typed_values())
def test_the_terse_form_is_read_back_equal_too(typed: tuple[Any, Any]) -> None:
    """Leaving out members at their default loses nothing: the defaults come back."""
    hint, value = typed
    terse = loads(dumps(encode_terse(value, hint, where="t")))
    assert decode(terse, hint, where="t") == value


JSON = st.recursive(
    st.none() | st.booleans() | INTS | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_plain_json_reads_back_equal_without_a_hint(value: Any) -> None:
    """What is JSON already needs no hint."""
    assert decode(loads(dumps(encode(value, where="t"))), where="t") == value


@settings(max_examples=100, deadline=None)
@given(st.sets(TEXT | INTS), st.randoms())
def test_a_set_is_written_in_one_order(value: set[Any], order: random.Random) -> None:
    """The order in which elements were added leaves no trace."""
    items = list(value)
    order.shuffle(items)
    assert encode(set(items), set[int | str], where="t") == encode(value, set[int | str], where="t")
