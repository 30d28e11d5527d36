"""The text forms of single values. Every form is what msgspec reads back equal."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

_LEAST = -(2**63)
_MOST = 2**64 - 1
_EXACT = 2**53


class Refused(Exception):
    """A value cannot be encoded. The path grows while the walk unwinds."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.path: list[str] = []
        self.more_than_class = False
        """Whether more is known than that the value is of another class."""

    def below(self, step: str) -> Refused:
        """Note one more step of the path, from the inside out."""
        self.path.append(step)
        return self

    def where(self) -> str:
        """The path from the outside in."""
        return "".join(reversed(self.path))


def text(value: str) -> str:
    """Check that the string is text: a lone surrogate is none."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Refused(
                "a string with a lone surrogate is not text and cannot be encoded"
            ) from None
    return value


def integer(value: int) -> int:
    """Check that the integer fits into 64 bits."""
    if not _LEAST <= value <= _MOST:
        raise Refused(f"an integer beyond 64 bits ({value.bit_length()} bits) cannot be encoded")
    return value


def number(value: float) -> float:
    """Check that the float is a number."""
    if not math.isfinite(value):
        raise Refused(f"{value!r} is not a JSON number and cannot be encoded")
    return value


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise Refused(f"{value!r} is not a number and cannot be encoded")
    return str(value)


def _datetime(value: datetime) -> str:
    offset = value.utcoffset()
    if offset is not None and offset.total_seconds() % 60:
        try:
            value = value.astimezone(UTC)
        except OverflowError:
            raise Refused(f"{value!r} cannot be written in UTC") from None
    return value.isoformat()


def _time(value: time) -> str:
    offset = value.utcoffset()
    if offset is not None and offset.total_seconds() % 60:
        raise Refused("a time whose UTC offset has seconds cannot be encoded")
    return value.isoformat()


def _timedelta(value: timedelta) -> str:
    sign, value = ("-", -value) if value.days < 0 and value != timedelta.min else ("", value)
    if value.days < 0:
        return f"-P{-value.days}D"
    days = f"{value.days}D" if value.days else ""
    seconds = f"{value.seconds}"
    if value.microseconds:
        seconds += f".{value.microseconds:06}"
    rest = f"T{seconds}S" if seconds != "0" or not days else ""
    return f"{sign}P{days}{rest}"


def _base64(value: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(bytes(value)).decode()


def _same(value: Any) -> Any:
    return value


FORMS: dict[type, Callable[[Any], Any]] = {
    NoneType: _same,
    bool: _same,
    str: text,
    int: integer,
    float: number,
    Decimal: _decimal,
    datetime: _datetime,
    date: date.isoformat,
    time: _time,
    timedelta: _timedelta,
    UUID: str,
    bytes: _base64,
    bytearray: _base64,
    memoryview: _base64,
}
"""The form of each class of single values."""

_BASES: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    Decimal: Decimal,
    datetime: lambda value: datetime.fromisoformat(datetime.isoformat(value)),
    date: lambda value: date.fromordinal(date.toordinal(value)),
    time: lambda value: time.fromisoformat(time.isoformat(value)),
    timedelta: lambda value: timedelta(value.days, value.seconds, value.microseconds),
    UUID: lambda value: UUID(int=value.int),
    bytes: bytes,
    bytearray: bytearray,
}


def plain(value: Any, cls: type) -> Any:
    """Turn an instance of a subclass into one of `cls`, if it stays equal.

    An integer passes for a float where the float is the same number. True is no integer, and a
    datetime is no date: neither would come back as what it was.
    """
    if cls is float and type(value) is int and abs(value) <= _EXACT:
        return float(value)
    if not isinstance(value, cls) or _deceives(value, cls):
        raise Refused(f"expected {cls.__name__}, got {type(value).__name__}")
    base = _BASES[cls](value)
    if not base == value:  # noqa: SIM201  # the value may define one of them only
        lost = f"an instance of {type(value).__name__} would not come back equal"
        raise Refused(f"expected {cls.__name__}: {lost}")
    return base


def _deceives(value: Any, cls: type) -> bool:
    return isinstance(value, bool) or (cls is date and isinstance(value, datetime))
