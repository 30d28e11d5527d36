"""One value of every type that crosses the port, and types that hold them all."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar, cast
from uuid import UUID

import attrs
import msgspec
import pydantic

T = TypeVar("T")


class Colour(enum.Enum):
    """An enum of strings."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    """An enum of integers."""

    LOW = -1
    HIGH = 2


@dataclass(frozen=True)
class Point:
    """A dataclass with a default."""

    x: int
    y: float = 0.5


@dataclass
class Box(Generic[T]):
    """A generic one."""

    item: T
    more: list[T] = field(default_factory=list[T])


@dataclass
class Node:
    """A recursive one."""

    value: int
    children: list[Node] = field(default_factory=list["Node"])


class Span(NamedTuple):
    """A named tuple."""

    begin: date
    end: date | None = None


class Movie(TypedDict):
    """A typed dictionary with a key that may be missing."""

    title: str
    year: NotRequired[int]


class Cat(msgspec.Struct, tag=True, frozen=True):
    """A tagged struct."""

    lives: int = 9


class Dog(msgspec.Struct, tag=True, frozen=True):
    """The other one of a union."""

    name: str
    born: date | None = None


@attrs.frozen
class Parcel:
    """An attrs class."""

    weight: Decimal
    sent: date | None = None


class Letter(pydantic.BaseModel):
    """A pydantic model with a nested one."""

    to: str
    parts: list[Letter] = []
    at: date | None = None
    price: Decimal = Decimal(0)


WHEN = datetime(2024, 2, 29, 23, 59, 58, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
UID = UUID("6f1c4e9e-5b7a-4a50-8f3a-0a8d2f3b9c11")

KINDS: dict[str, tuple[Any, Any]] = {
    "nothing": (None, None),
    "truth": (bool, True),
    "integer": (int, 2**63 - 1),
    "real": (float, 0.1 + 0.2),
    "text": (str, 'ä€😀 "\\ \n \0 end'),
    "raw": (bytes, bytes(range(256))),
    "moment": (datetime, WHEN),
    "naive": (datetime, datetime(1999, 12, 31, 1, 2, 3)),  # noqa: DTZ001
    "day": (date, date(2024, 2, 29)),
    "hour": (time, time(1, 2, 3, 4, tzinfo=UTC)),
    "length": (timedelta, timedelta(days=-3, seconds=5, microseconds=7)),
    "money": (Decimal, Decimal("1234567890.12345678901234567890")),
    "id": (UUID, UID),
    "colour": (Colour, Colour.BLUE),
    "level": (Level, Level.LOW),
    "point": (Point, Point(3, -0.25)),
    "cat": (Cat, Cat(7)),
    "pair": (tuple[int, str], (1, "one")),
    "row": (tuple[date, ...], (date(2020, 1, 1), date(2021, 1, 1))),
    "tags": (set[str], {"b", "a", "c"}),
    "days": (frozenset[date], frozenset({date(2020, 1, 1), date(2019, 1, 1)})),
    "numbers": (dict[int, Decimal], {1: Decimal("0.10"), -2: Decimal(3)}),
    "by_id": (dict[UUID, list[Point]], {UID: [Point(1), Point(2, 2.0)]}),
    "box": (Box[date], Box(date(2020, 5, 17), [date(2020, 5, 18)])),
    "boxes": (Box[Box[Point]], Box(Box(Point(1)), [Box(Point(2), [Point(3)])])),
    "tree": (Node, Node(1, [Node(2, [Node(3)]), Node(4)])),
    "pet": (Cat | Dog, Dog("rex", date(2020, 2, 2))),
    "maybe": (datetime | None, WHEN),
    "absent": (Point | None, None),
    "either": (int | str | None, "7"),
    "choice": (Literal["on", 3], 3),
    "span": (Span, Span(date(2020, 1, 1), date(2020, 1, 2))),
    "movie": (Movie, {"title": "Metropolis", "year": 1927}),
    "film": (Movie, {"title": "M"}),
    "parcel": (Parcel, Parcel(Decimal("1.50"), date(2020, 1, 1))),
    "letter": (
        Letter,
        Letter(to="ann", parts=[Letter(to="bo", at=WHEN.date())], price=Decimal("0.10")),
    ),
    "letters": (list[Letter], [Letter(to="ann"), Letter(to="bo")]),
    "plain": (Any, {"a": [1, 2.5, None, True, {"b": "c"}]}),
}
"""A hint and a value by name. `plain` stands for what has no hint."""


@dataclass
class Everything:
    """All kinds inside one another, as members of a dataclass."""

    box: Box[tuple[Point, Decimal]]
    pets: list[Cat | Dog]
    spans: dict[Colour, Span]
    movies: tuple[Movie, ...]
    when: datetime
    raw: bytes
    ids: frozenset[UUID]
    waits: list[timedelta | None]
    tree: Node
    levels: dict[str, set[Level]]
    deep: dict[str, list[tuple[int, Box[Cat | Dog]]]]
    parcels: list[Parcel]
    letters: dict[str, Letter]
    note: int | str | None = None


def everything() -> Everything:
    """Return one value of it."""
    return Everything(
        box=Box((Point(1, 2.5), Decimal("0.10")), [(Point(2), Decimal("-3.00"))]),
        pets=[Cat(1), Dog("rex", date(2020, 2, 2)), Dog("bo")],
        spans={Colour.RED: Span(date(2020, 1, 1)), Colour.BLUE: Span(WHEN.date(), WHEN.date())},
        movies=({"title": "M"}, {"title": "Metropolis", "year": 1927}),
        when=WHEN,
        raw=b"\x00\xff",
        ids=frozenset({UID}),
        waits=[timedelta(microseconds=1), None],
        tree=Node(1, [Node(2)]),
        levels={"all": {Level.LOW, Level.HIGH}, "none": set()},
        deep={"k": [(1, Box(Cat(2), [Dog("x")]))]},
        parcels=[Parcel(Decimal(2))],
        letters={"one": Letter(to="ann", parts=[Letter(to="bo")])},
        note="seven",
    )


def shown(value: Any) -> str:
    """Return the text of a value, sets in order."""
    if isinstance(value, set | frozenset):
        return repr(sorted(cast("set[Any]", value)))
    return repr(value)
