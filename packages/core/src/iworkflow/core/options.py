"""Options of steps, children and starts: as the user writes them, and checked.

The `TypedDict`s type the keywords of the calls; the policies are what crosses the port:
checked, every duration in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from iworkflow.core.checks import choices

if TYPE_CHECKING:
    from iworkflow.core.definition import AppDefinition

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


def seconds(name: str, value: object, *, zero: bool = False) -> float:
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


def check_priority(value: object, default: int = DEFAULT_PRIORITY, *, where: str = "") -> int:
    """Check a priority; None gives the default.

    Raises:
        ValueError: it is not 1 to 5.
    """
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value not in _PRIORITIES:
        raise ValueError(f"{where}priority must be 1 (first) to 5 (last), not {value!r}")
    return value


def step_policy(
    app: AppDefinition,
    step_name: str,
    options: StepOptions,
    *,
    default_priority: int = DEFAULT_PRIORITY,
) -> StepPolicy:
    """Check the options of a step.

    Raises:
        ValueError: a value is out of bounds, or the app has no such pool.
        TypeError: an option is not known, or a value is of the wrong sort.
    """
    where = f"step {step_name!r}: "
    check_keywords(where, options, StepOptions)
    get = cast("Mapping[str, Any]", options).get
    default = StepPolicy()
    policy = StepPolicy(
        attempts=_attempts(where, get("attempts", default.attempts)),
        retry_interval=seconds(
            f"{where}retry_interval", get("retry_interval", default.retry_interval), zero=True
        ),
        backoff=_backoff(where, get("backoff", default.backoff)),
        max_retry_interval=_optional(where, "max_retry_interval", options, zero=True),
        timeout=seconds(f"{where}timeout", get("timeout", default.timeout)),
        total_timeout=_optional(where, "total_timeout", options),
        heartbeat_timeout=_optional(where, "heartbeat_timeout", options),
        non_retryable_types=_type_names(where, get("non_retryable_types", ())),
        pool=_pool(where, get("pool"), app),
        priority=check_priority(get("priority"), default_priority, where=where),
    )
    most = policy.max_retry_interval
    if most is not None and most < policy.retry_interval:
        raise ValueError(
            f"{where}max_retry_interval ({most:g} s) is below "
            f"retry_interval ({policy.retry_interval:g} s)"
        )
    return policy


def check_keywords(where: str, options: Mapping[str, Any], allowed: type) -> None:
    """Refuse a keyword that the `TypedDict` does not have.

    Raises:
        TypeError: names the keyword and what was probably meant.
    """
    for name in options:
        if name not in allowed.__annotations__:
            known = choices("option", name, allowed.__annotations__)
            raise TypeError(f"{where}no option {name!r} {known}")


def _optional(
    where: str, name: str, options: Mapping[str, Any], *, zero: bool = False
) -> float | None:
    value = options.get(name)
    return None if value is None else seconds(f"{where}{name}", value, zero=zero)


def _attempts(where: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{where}attempts must be an integer or None, not {value!r}")
    if value < 1:
        raise ValueError(f"{where}attempts must be 1 or more, or None for no limit, not {value!r}")
    return value


def _backoff(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{where}backoff must be a number, not {value!r}")
    if not math.isfinite(value) or value < 1:
        raise ValueError(f"{where}backoff must be 1 or more, not {value!r}")
    return float(value)


def _type_names(where: str, types: object) -> tuple[str, ...]:
    if isinstance(types, str | type) or not isinstance(types, Iterable):
        raise TypeError(
            f"{where}non_retryable_types must be a sequence of exceptions or names, not {types!r}"
        )
    return tuple(_type_name(where, one) for one in cast("Iterable[object]", types))


def _type_name(where: str, one: object) -> str:
    if isinstance(one, type) and issubclass(one, BaseException):
        return one.__name__
    if isinstance(one, str) and one:
        return one
    raise TypeError(f"{where}non_retryable_types: {one!r} is no exception and no name of one")


def _pool(where: str, pool: object, app: AppDefinition) -> str | None:
    if pool is None:
        return None
    if not isinstance(pool, str):
        raise TypeError(f"{where}pool must be the name of one, not {pool!r}")
    if pool not in app.pools:
        raise ValueError(
            f"{where}no pool {pool!r} in app {app.app!r} {choices('pool', pool, app.pools)}"
        )
    return pool
