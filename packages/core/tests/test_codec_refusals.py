"""What cannot be carried is refused with its path, wherever it stands in a value."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Generic, NamedTuple, NotRequired, TypedDict, TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iworkflow.core.codec import ANY, decode, encode
from iworkflow.core.errors import Failure

T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    item: T


class Slip(msgspec.Struct, Generic[T], tag=True):
    item: T


class Pair(NamedTuple, Generic[T]):
    left: int
    right: T


class Holder(TypedDict, Generic[T]):
    item: T
    more: NotRequired[int]


@dataclass
class Lead:
    name: str


@dataclass
class VipLead(Lead):
    rank: int


@dataclass(frozen=True)
class Wrapping:
    """A way to put a value inside another one: its hint, its value, the path, its JSON."""

    hint: Any
    value: Any
    path: str
    stored: Any
    read_path: str


def of(generic: Any, *hints: Any) -> Any:
    """Fill in a generic."""
    return generic[hints if len(hints) > 1 else hints[0]]


def wrapped(inner: Wrapping, how: str) -> Wrapping:
    """Put the value one level deeper."""
    hint, value, stored = inner.hint, inner.value, inner.stored
    member = (f".item{inner.path}", {"item": stored}, f".item{inner.read_path}")
    forms: dict[str, tuple[Any, Any, str, Any, str]] = {
        "list": (of(list, hint), [value], f"[0]{inner.path}", [stored], f"[0]{inner.read_path}"),
        "tuple": (
            of(tuple, int, hint),
            (1, value),
            f"[1]{inner.path}",
            [1, stored],
            f"[1]{inner.read_path}",
        ),
        "dict": (
            of(dict, str, hint),
            {"k": value},
            f"['k']{inner.path}",
            {"k": stored},
            f"[...]{inner.read_path}",
        ),
        "dates": (
            of(dict, date, hint),
            {date(2024, 1, 2): value},
            f"[datetime.date(2024, 1, 2)]{inner.path}",
            {"2024-01-02": stored},
            f"[...]{inner.read_path}",
        ),
        "optional": (hint | None, value, inner.path, stored, inner.read_path),
        "dataclass": (of(Box, hint), Box(value), *member),
        "struct": (
            of(Slip, hint),
            Slip(value),
            member[0],
            {"type": "Slip", "item": stored},
            member[2],
        ),
        "named": (
            of(Pair, hint),
            Pair(1, value),
            f".right{inner.path}",
            [1, stored],
            f"[1]{inner.read_path}",
        ),
        "typed dict": (
            of(Holder, hint),
            {"item": value},
            f"['item']{inner.path}",
            {"item": stored},
            f".item{inner.read_path}",
        ),
    }
    return Wrapping(*forms[how])


HOWS = ["list", "tuple", "dict", "dates", "optional", "dataclass", "struct", "named", "typed dict"]
BAD: list[tuple[Any, Any, str]] = [
    (int, "7", "expected"),
    (int, 2**64, "an integer beyond 64 bits"),
    (float, float("nan"), "nan is not a JSON number"),
    (Decimal, Decimal("Infinity"), "is not a number"),
    (str, "\ud800", "a string with a lone surrogate"),
    (bytes, "text", "expected"),
    (date, object(), "expected"),
    (set[int], {"x"}, "expected"),
    (Lead, VipLead("a", 1), "its subclass VipLead"),
]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(BAD), st.lists(st.sampled_from(HOWS), max_size=5))
def test_a_value_is_refused_with_its_path(bad: tuple[Any, Any, str], hows: list[str]) -> None:
    """However deep it stands, in whatever: TypeError begins with the path and tells why."""
    hint, value, why = bad
    whole = Wrapping(hint, value, "{'x'}" if value == {"x"} else "", None, "")
    for how in hows:
        whole = wrapped(whole, how)
    with pytest.raises(TypeError) as caught:
        encode(whole.value, whole.hint, where="lead")
    assert str(caught.value).startswith(f"lead{whole.path}: ")
    assert why in str(caught.value)


PLAIN = [how for how in HOWS if how not in ("dates", "optional")]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([object(), 1j, float("inf"), 2**70, "\udfff", {1: "a"}]),
    st.lists(st.sampled_from(PLAIN), max_size=5),
)
def test_without_a_hint_too(value: Any, hows: list[str]) -> None:
    """Where no hint says what a value is, what cannot be carried is refused with its path."""
    whole = Wrapping(Any, value, "", None, "")
    for how in hows:
        whole = wrapped(whole, how)
    with pytest.raises(TypeError) as caught:
        encode(whole.value, ANY, where="lead")
    assert str(caught.value).startswith(f"lead{whole.path}: ")


MISFITS: list[tuple[Any, Any]] = [
    (int, "7"),
    (date, "yesterday"),
    (Decimal, [1]),
    (bytes, 3),
    (bool, 1),
    (Slip[int], {"type": "Other"}),
]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(MISFITS), st.lists(st.sampled_from(HOWS), max_size=5))
def test_a_stored_value_that_does_not_fit_is_refused_with_its_path(
    misfit: tuple[Any, Any], hows: list[str]
) -> None:
    """However deep it stands: a final failure `DecodeError` that names path and hint."""
    hint, stored = misfit
    whole = Wrapping(hint, None, "", stored, "")
    for how in hows:
        whole = wrapped(whole, how)
    with pytest.raises(Failure) as caught:
        decode(whole.stored, whole.hint, where="lead")
    assert (caught.value.type, caught.value.non_retryable) == ("DecodeError", True)
    assert caught.value.message.startswith(f"lead{whole.read_path}")
    assert "it was read as" in caught.value.message
