"""A pair of types that is judged to fit does fit, whatever values are written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from itertools import count
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iworkflow.contracts.differences import differences
from iworkflow.contracts.reading import Type, exclude, misreads
from iworkflow.contracts.schemas import Schemas
from iworkflow.core import Failure
from iworkflow.core.codec import check_hint, decode, encode


class Few(Enum):
    A = "a"
    B = "b"


class More(Enum):
    A = "a"
    B = "b"
    C = "c"


Typed = tuple[Any, st.SearchStrategy[Any]]
"""A hint, and values of it."""

SCALARS: list[Typed] = [
    (str, st.text("ab!", max_size=3)),
    (int, st.integers(-3, 3)),
    (float, st.sampled_from([0.5, 1.0, -2.0])),
    (bool, st.booleans()),
    (None, st.none()),
    (date, st.just(date(2025, 1, 31))),
    (datetime, st.just(datetime(2025, 1, 31, tzinfo=UTC))),
    (UUID, st.just(UUID(int=1))),
    (Decimal, st.sampled_from([Decimal("1.5"), Decimal("2")])),
    (bytes, st.just(b"ab")),
    (Few, st.sampled_from(list(Few))),
    (More, st.sampled_from(list(More))),
    (Literal["a"], st.just("a")),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (Literal[1, 2], st.sampled_from([1, 2])),
    (Literal[True], st.just(True)),
    (Annotated[int, msgspec.Meta(ge=0)], st.integers(0, 3)),
    (Annotated[int, msgspec.Meta(ge=1, le=2)], st.integers(1, 2)),
    (Annotated[str, msgspec.Meta(max_length=1)], st.text("ab", max_size=1)),
    (Annotated[str, msgspec.Meta(pattern="^a*$")], st.text("a", max_size=2)),
    (Any, st.sampled_from([None, 1, "a", [1], {"a": 1}])),
]
_NAMES = count()


def listed(inner: Typed) -> Typed:
    hint, values = inner
    return list[hint], st.lists(values, max_size=2)  # type: ignore[valid-type]


def mapped(inner: Typed) -> Typed:
    hint, values = inner
    return dict[str, hint], st.dictionaries(st.sampled_from("ab"), values)  # type: ignore[valid-type]


def paired(inner: Sequence[Typed]) -> Typed:
    hints = tuple(hint for hint, _ in inner)
    return tuple[hints], st.tuples(*(values for _, values in inner))  # type: ignore[valid-type]


def either(inner: Sequence[Typed]) -> Typed:
    (one, values), (other, others) = inner
    return one | other if one is not None else other | one, values | others


def shaped(fields: dict[str, tuple[Typed, bool]]) -> Typed:
    notes = {
        name: hint if required else NotRequired[hint]  # type: ignore[valid-type]
        for name, ((hint, _), required) in fields.items()
    }
    required = {name: values for name, ((_, values), needed) in fields.items() if needed}
    optional = {name: values for name, ((_, values), needed) in fields.items() if not needed}
    hint = TypedDict(f"Shape{next(_NAMES)}", notes)  # type: ignore[operator, misc]
    return hint, st.fixed_dictionaries(required, optional=optional)


def readable(typed: Typed) -> bool:
    try:
        check_hint(typed[0], where="t")
    except TypeError:
        return False
    return True


def below(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    fields = st.dictionaries(st.sampled_from("xyz"), st.tuples(inner, st.booleans()), max_size=3)
    return st.one_of(
        inner.map(listed),
        inner.map(mapped),
        st.lists(inner, min_size=1, max_size=2).map(paired),
        fields.map(shaped),
    )


LEAVES = st.sampled_from(SCALARS) | (
    st.lists(st.sampled_from([*SCALARS[:3], SCALARS[4], *SCALARS[10:16]]), min_size=2, max_size=2)
    .filter(lambda two: two[0] != two[1] and None not in (two[0][0], two[1][0]))
    .map(either)
    .filter(readable)
)
TYPES = st.recursive(LEAVES, below, max_leaves=4).filter(readable)


def type_of(hint: Any) -> Type:
    schemas = Schemas()
    return Type(schemas.of(hint), schemas.definitions)


def reads(hint: Any, written: Any) -> bool:
    try:
        decode(written, hint, where="t")
    except Failure:
        return False
    return True


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(TYPES, TYPES, st.data())
def test_what_is_judged_to_fit_is_read(writer: Typed, reader: Typed, data: st.DataObject) -> None:
    """No misread: every value of the writer is read. Excluded: none of a class is."""
    written = encode(data.draw(writer[1]), writer[0], where="t")
    gives, takes = type_of(writer[0]), type_of(reader[0])
    if not misreads(takes, gives):
        assert reads(reader[0], written)
    classes = all("properties" in one.plain().schema for one in (takes, gives))
    if classes and exclude(takes, gives):
        assert not reads(reader[0], written)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(TYPES, TYPES)
def test_what_does_not_differ_is_read_both_ways(one: Typed, other: Typed) -> None:
    """A type fits itself; two without a difference fit each other."""
    first, second = type_of(one[0]), type_of(other[0])
    assert misreads(first, first) == []
    assert differences(first, first) == []
    if not differences(first, second):
        assert misreads(first, second) == misreads(second, first) == []


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(TYPES, st.data())
def test_members_may_be_added_where_they_are_optional(typed: Typed, data: st.DataObject) -> None:
    """An optional member more is read by old and new; a required one less by the new side."""
    old = shaped({"x": (typed, True)})
    new = shaped({"x": (typed, True), "y": (data.draw(st.sampled_from(SCALARS)), False)})
    assert misreads(type_of(old[0]), type_of(new[0])) == []
    assert misreads(type_of(new[0]), type_of(old[0])) == []
    less = shaped({})
    assert misreads(type_of(less[0]), type_of(old[0])) == []
    assert [one.path for one in misreads(type_of(old[0]), type_of(less[0]))] == ["x"]
