"""Options of steps, children and starts: as the user writes them, and checked.

The `TypedDict`s type the keywords of the calls; the policies are what crosses the port:
checked, every duration in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypedDict

Duration = timedelta | float
"""A length of time; a number is seconds."""

OnExisting = Literal["attach", "reject"]

DEFAULT_PRIORITY = 3
_PRIORITIES = range(1, 6)


class StepOptions(TypedDict, total=False):
    """Keywords of `Context.step`."""

    attempts: int | None
    """How many attempts are made at most; None is without limit. Default 3."""
    retry_interval: Duration
    """The first wait between attempts. Default 0.2 s."""
    backoff: float
    """By what the wait grows each time. Default 1."""
    max_retry_interval: Duration | None
    """What the wait grows to at most."""
    timeout: Duration
    """How long one attempt may take. Default 60 s."""
    total_timeout: Duration | None
    """How long all attempts, waits and waiting for a pool may take until no further one starts."""
    heartbeat_timeout: Duration | None
    """How long an attempt may go without calling `heartbeat()`."""
    non_retryable_types: Iterable[type[BaseException] | str]
    """Exceptions, by class or by name, bases included, after which no further attempt is made."""
    pool: str | None
    """The pool of the app in which the step runs."""
    priority: int | None
    """1 (first) to 5 (last). Default: the flow's."""


class ChildOptions(TypedDict, total=False):
    """Keywords of `Context.child` and `Context.start_child`."""

    timeout: Duration | None
    """How long the child may take from its start."""
    on_existing: OnExisting
    """What to do when the id is taken."""
    priority: int | None
    """1 (first) to 5 (last). Default: the flow's."""


class StartOptions(TypedDict, total=False):
    """Keywords of `Client.start`, next to the id."""

    timeout: Duration | None
    """How long the run may take from its start."""
    on_existing: OnExisting
    """What to do when the id is taken. Default: attach."""
    priority: int | None
    """1 (first) to 5 (last). Default 3."""


@dataclass(frozen=True, slots=True)
class StepPolicy:
    """How a step is run: checked options, durations in seconds."""

    attempts: int | None = 3
    retry_interval: float = 0.2
    backoff: float = 1.0
    max_retry_interval: float | None = None
    timeout: float = 60.0
    total_timeout: float | None = None
    heartbeat_timeout: float | None = None
    non_retryable_types: tuple[str, ...] = ()
    pool: str | None = None
    priority: int = DEFAULT_PRIORITY


def seconds(name: str, value: Duration, *, zero: bool = False) -> float:
    """Check a duration and return it in seconds.

    Raises:
        ValueError: it is negative, not finite, or zero where zero means nothing.
        TypeError: it is not a duration at all.
    """
    if isinstance(value, timedelta):
        result = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        result = float(value)
    else:
        raise TypeError(f"{name} must be a timedelta or a number of seconds, not {value!r}")
    if not math.isfinite(result) or result < 0 or (result == 0 and not zero):
        least = "0 or more" if zero else "above 0"
        raise ValueError(f"{name} must be {least}, not {value!r}")
    return result


def check_priority(value: int | None, default: int = DEFAULT_PRIORITY) -> int:
    """Check a priority; None gives the default."""
    if value is None:
        return default
    if isinstance(value, bool) or value not in _PRIORITIES:
        raise ValueError(f"priority must be 1 (first) to 5 (last), not {value!r}")
    return value
