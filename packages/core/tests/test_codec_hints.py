# ruff: noqa: ISC004, PYI051, UP007  # every spelling of a hint is meant
"""Which hints are refused, and with which words."""

import enum
from collections import deque
from collections.abc import Iterable
from dataclasses import InitVar, dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ForwardRef, Generic, Literal, NamedTuple, TypeVar, Union
from uuid import UUID

import msgspec
import pytest

from iworkflow.core.codec import check_hint, show

if TYPE_CHECKING:
    from fractions import Fraction

T = TypeVar("T")
C = TypeVar("C", int, str)


@dataclass
class A:
    x: int


@dataclass
class B:
    x: int


class Tagged(msgspec.Struct, tag=True):
    x: int


class OtherTagged(msgspec.Struct, tag=True):
    x: int


class SameTag(msgspec.Struct, tag="Tagged"):
    y: int


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Half(enum.Enum):
    HALF = 0.5


class Word(enum.StrEnum):
    YES = "yes"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Absent:
    ratio: "Fraction"


@dataclass
class Deep:
    inner: "list[dict[str, Absent]]"


@dataclass
class WithQueue:
    items: "deque[int]"


@dataclass
class WithInit:
    seed: InitVar[int]
    x: int = 0


@dataclass
class Unhashable:
    x: int


@dataclass
class Tree(Generic[T]):
    value: T
    left: "Tree[T] | None" = None


class Pair(NamedTuple):
    x: int


class Strange:
    pass


REFUSED: list[tuple[Any, str]] = [
    (
        A | B,
        "A | B: A and B are all objects in JSON; use tagged Structs (msgspec.Struct, tag=True)",
    ),
    (
        list[A | dict[str, int]],
        "list[A | dict[str, int]]: A and dict[str, int] are all objects in JSON; "
        "use tagged Structs (msgspec.Struct, tag=True)",
    ),
    (
        A | Tagged,
        "A | Tagged: A and Tagged are all objects in JSON; "
        "use tagged Structs (msgspec.Struct, tag=True)",
    ),
    (date | str, "date | str: date and str are all strings in JSON"),
    (date | datetime | None, "date | datetime | None: date and datetime are all strings in JSON"),
    (
        Decimal | UUID | bytes,
        "Decimal | UUID | bytes: Decimal, UUID and bytes are all strings in JSON",
    ),
    (Word | str, "Word | str: Word and str are all strings in JSON"),
    (Level | int, "Level | int: Level and int are all integers in JSON"),
    (
        list[int] | tuple[int, ...],
        "list[int] | tuple[int, ...]: list[int] and tuple[int, ...] are all arrays in JSON",
    ),
    (Pair | set[int], "Pair | set[int]: Pair and set[int] are all arrays in JSON"),
    (Mixed, "Mixed: the values of enum Mixed must be all str or all int"),
    (dict[str, Half], "dict[str, Half]: the values of enum Half must be all str or all int"),
    (deque, "deque: deque is no type that it knows"),
    (deque[int], "deque[int]: deque[int] is no type that it knows"),
    (WithQueue, "WithQueue: deque[int] is no type that it knows"),
    (Iterable[int], "Iterable[int]: Iterable[int] is no type that it knows"),
    (complex, "complex: complex is no type that it knows"),
    (Strange, "Strange: Strange is no type that it knows"),
    (Strange | None, "Strange | None: Strange is no type that it knows"),
    (C, "~C: ~C is no type that it knows"),
    (
        Absent,
        "Absent: cannot resolve the hint 'Fraction' of Absent.ratio: "
        "name 'Fraction' is not defined",
    ),
    (
        Deep,
        "Deep: cannot resolve the hint 'Fraction' of Absent.ratio: name 'Fraction' is not defined",
    ),
    (WithInit, "WithInit: WithInit.seed is an InitVar, which is not kept"),
    ("int", "'int': the name 'int' is not resolved"),
    (list["A"], "list['A']: the name 'A' is not resolved"),
    (ForwardRef("A"), "'A': the name 'A' is not resolved"),
    (Literal[b"a"], "Literal[b'a']: a Literal may hold None, bool, int and str, not b'a'"),
    (
        dict[tuple[int, int], str],
        "dict[tuple[int, int], str]: tuple[int, int] is no key that JSON can hold, "
        "in dict[tuple[int, int], str]",
    ),
    (
        dict[bool, int],
        "dict[bool, int]: bool is no key that JSON can hold, in dict[bool, int]",
    ),
    (
        dict[int | str, int],
        "dict[int | str, int]: int | str is no key that JSON can hold, in dict[int | str, int]",
    ),
    (
        dict[Literal[1, True], int],
        "dict[Literal[1, True], int]: Literal[1, True] is no key that JSON can hold, "
        "in dict[Literal[1, True], int]",
    ),
    (set[list[int]], "set[list[int]]: list[int] is not hashable, in set[list[int]]"),
    (
        frozenset[Unhashable],
        "frozenset[Unhashable]: Unhashable is not hashable, in frozenset[Unhashable]",
    ),
]


@pytest.mark.parametrize(("hint", "message"), REFUSED, ids=[one[1][:40] for one in REFUSED])
def test_a_hint_that_cannot_be_read_back(hint: Any, message: str) -> None:
    """TypeError names where, the hint and the reason."""
    with pytest.raises(TypeError) as caught:
        check_hint(hint, where="step 'compose': parameter 'lead'")
    assert str(caught.value) == (
        f"step 'compose': parameter 'lead': the codec cannot read back {message}"
    )


def test_what_only_msgspec_knows_is_refused_too() -> None:
    """Two Structs of one tag pass our own walk; msgspec has the last word."""
    with pytest.raises(TypeError, match=r"^p: the codec cannot read back Tagged \| SameTag: "):
        check_hint(Tagged | SameTag, where="p")


@pytest.mark.parametrize(
    "hint",
    [
        Tagged | OtherTagged | None,
        Tagged | list[int] | str | int | float | bool,
        Tree[int],
        Tree[Tree[str]],
        Union[Literal["a"], str],
        date | int | None,
        Any,
        int | Any,
        object,
    ],
    ids=str,
)
def test_a_hint_that_can_be_read_back(hint: Any) -> None:
    """Nothing is raised."""
    check_hint(hint, where="p")


def test_hints_are_shown_as_they_are_written() -> None:
    """Names without modules, None for NoneType, unions with bars."""
    assert show(dict[str, list[A | None]]) == "dict[str, list[A | None]]"
    assert show(Union[int, None]) == "int | None"
    assert show(tuple[int, ...]) == "tuple[int, ...]"
    assert show(Tree[A]) == "Tree[A]"
    assert show(Any) == "Any"
