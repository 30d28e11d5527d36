# ruff: noqa: ISC004
"""Options are checked at the call, and the message names the step and the option."""

from datetime import timedelta
from typing import Any

import pytest

from iworkflow.core.definition import AppDefinition
from iworkflow.core.options import (
    StepOptions,
    StepPolicy,
    check_priority,
    seconds,
    step_policy,
)


async def outreach(ctx: Any) -> None: ...


APP = AppDefinition("ioutreach", flows=[outreach], pools={"paced": 2, "bulk": 1})


def policy(options: StepOptions, default_priority: int = 3) -> StepPolicy:
    return step_policy(APP, "remind", options, default_priority=default_priority)


def test_the_defaults() -> None:
    """3 attempts, 0.2 s apart, no growth, 60 s an attempt; the priority is the flow's."""
    assert policy({}) == StepPolicy(
        attempts=3,
        retry_interval=0.2,
        backoff=1.0,
        max_retry_interval=None,
        timeout=60.0,
        total_timeout=None,
        heartbeat_timeout=None,
        non_retryable_types=(),
        pool=None,
        priority=3,
    )
    assert policy({}, default_priority=5).priority == 5


def test_every_option_is_taken() -> None:
    """Durations in seconds, classes by their names."""
    assert policy(
        {
            "attempts": None,
            "retry_interval": timedelta(minutes=2),
            "backoff": 2,
            "max_retry_interval": 300,
            "timeout": timedelta(milliseconds=500),
            "total_timeout": 10,
            "heartbeat_timeout": 1.5,
            "non_retryable_types": [ValueError, "Refused"],
            "pool": "paced",
            "priority": 1,
        }
    ) == StepPolicy(None, 120.0, 2.0, 300.0, 0.5, 10.0, 1.5, ("ValueError", "Refused"), "paced", 1)


def test_values_at_their_bounds_are_taken() -> None:
    """No wait at all is one; so is a maximum that equals the interval."""
    taken = policy({"attempts": 1, "retry_interval": 0, "max_retry_interval": 0, "backoff": 1})
    assert (taken.attempts, taken.retry_interval, taken.max_retry_interval) == (1, 0.0, 0.0)
    assert policy({"retry_interval": 2, "max_retry_interval": 2}).max_retry_interval == 2.0


NAN = float("nan")
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"attempts": 0}, ValueError, "attempts must be 1 or more, or None for no limit, not 0"),
    ({"attempts": -1}, ValueError, "attempts must be 1 or more, or None for no limit, not -1"),
    ({"attempts": True}, TypeError, "attempts must be an integer or None, not True"),
    ({"attempts": 2.0}, TypeError, "attempts must be an integer or None, not 2.0"),
    ({"retry_interval": -1}, ValueError, "retry_interval must be 0 or more, not -1"),
    (
        {"retry_interval": timedelta(seconds=-1)},
        ValueError,
        "retry_interval must be 0 or more, not datetime.timedelta(days=-1, seconds=86399)",
    ),
    ({"retry_interval": NAN}, ValueError, "retry_interval must be 0 or more, not nan"),
    (
        {"retry_interval": "1"},
        TypeError,
        "retry_interval must be a timedelta or a number of seconds, not '1'",
    ),
    ({"backoff": 0.5}, ValueError, "backoff must be 1 or more, not 0.5"),
    ({"backoff": NAN}, ValueError, "backoff must be 1 or more, not nan"),
    ({"backoff": "2"}, TypeError, "backoff must be a number, not '2'"),
    ({"max_retry_interval": -1}, ValueError, "max_retry_interval must be 0 or more, not -1"),
    (
        {"retry_interval": 2, "max_retry_interval": 1},
        ValueError,
        "max_retry_interval (1 s) is below retry_interval (2 s)",
    ),
    ({"timeout": 0}, ValueError, "timeout must be above 0, not 0"),
    ({"timeout": -1}, ValueError, "timeout must be above 0, not -1"),
    ({"timeout": float("inf")}, ValueError, "timeout must be above 0, not inf"),
    (
        {"timeout": None},
        TypeError,
        "timeout must be a timedelta or a number of seconds, not None",
    ),
    ({"total_timeout": 0}, ValueError, "total_timeout must be above 0, not 0"),
    ({"heartbeat_timeout": 0}, ValueError, "heartbeat_timeout must be above 0, not 0"),
    ({"priority": 0}, ValueError, "priority must be 1 (first) to 5 (last), not 0"),
    ({"priority": 6}, ValueError, "priority must be 1 (first) to 5 (last), not 6"),
    ({"priority": True}, ValueError, "priority must be 1 (first) to 5 (last), not True"),
    ({"priority": 2.0}, ValueError, "priority must be 1 (first) to 5 (last), not 2.0"),
    (
        {"pool": "pacd"},
        ValueError,
        "no pool 'pacd' in app 'ioutreach' (pools: 'paced', 'bulk'); did you mean 'paced'?",
    ),
    ({"pool": 3}, TypeError, "pool must be the name of one, not 3"),
    (
        {"non_retryable_types": ValueError},
        TypeError,
        "non_retryable_types must be a sequence of exceptions or names, not <class 'ValueError'>",
    ),
    (
        {"non_retryable_types": "Refused"},
        TypeError,
        "non_retryable_types must be a sequence of exceptions or names, not 'Refused'",
    ),
    (
        {"non_retryable_types": [int]},
        TypeError,
        "non_retryable_types: <class 'int'> is no exception and no name of one",
    ),
    (
        {"atempts": 1},
        TypeError,
        "no option 'atempts' (options: 'attempts', 'retry_interval', 'backoff', "
        "'max_retry_interval', 'timeout', 'total_timeout', 'heartbeat_timeout', "
        "'non_retryable_types', 'pool', 'priority'); did you mean 'attempts'?",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED)
def test_a_bad_option_is_refused(options: Any, error: type[Exception], message: str) -> None:
    """The message begins with the step and names the option and the value."""
    with pytest.raises(error) as caught:
        policy(options)
    assert str(caught.value) == f"step 'remind': {message}"


def test_the_message_of_an_unknown_pool() -> None:
    """Word for word what the port promises; an app without pools says so."""
    app = AppDefinition("ioutreach", flows=[outreach], pools={"paced": 2})
    with pytest.raises(ValueError) as caught:
        step_policy(app, "remind", {"pool": "pacd"}, default_priority=3)
    assert str(caught.value) == (
        "step 'remind': no pool 'pacd' in app 'ioutreach' (pools: 'paced'); did you mean 'paced'?"
    )
    none = AppDefinition("ioutreach", flows=[outreach])
    with pytest.raises(ValueError, match=r"no pool 'x' in app 'ioutreach' \(pools: none\)$"):
        step_policy(none, "remind", {"pool": "x"}, default_priority=3)


def test_durations_and_priorities_alone() -> None:
    """What other calls check by."""
    assert seconds("timeout", 1) == 1.0
    assert seconds("sleep", 0, zero=True) == 0.0
    assert check_priority(None, 4) == 4
    with pytest.raises(TypeError, match="must be a timedelta or a number of seconds, not True"):
        seconds("timeout", True)
