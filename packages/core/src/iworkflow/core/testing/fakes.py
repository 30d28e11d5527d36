"""Steps of an app replaced by functions of a test, and watched."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from iworkflow.core.definition import AppDefinition, StepDefinition

StepKey = Callable[..., Any] | str
"""A step of an app, or its name."""

Fake = Callable[..., Any]
"""What runs in place of a step, async or not."""

Heard = Callable[[str, tuple[Any, ...]], None]
"""Told the name of a step and its arguments when an attempt begins."""


def replaced(
    apps: Sequence[AppDefinition], steps: Mapping[StepKey, Fake], heard: Heard
) -> list[AppDefinition]:
    """Return copies of the apps for running steps, not flows: replaced, and watched.

    Raises:
        ValueError: no app has one of the steps.
    """
    left = dict(steps)
    copies = [_with_steps(app, steps, left, heard) for app in apps]
    if left:
        raise ValueError(_unknown(next(iter(left)), apps))
    return copies


def _with_steps(
    app: AppDefinition,
    steps: Mapping[StepKey, Fake],
    left: dict[StepKey, Fake],
    heard: Heard,
) -> AppDefinition:
    activities: dict[str, StepDefinition] = {}
    for step in app.activities.values():
        key = next((key for key in steps if key == step.name or key is step.fn), None)
        fake = None if key is None else steps[key]
        if key is not None:
            left.pop(key, None)
        activities[step.name] = _watched(step, fake, heard)
    clone = copy.copy(app)
    object.__setattr__(clone, "activities", MappingProxyType(activities))
    return clone


def _watched(step: StepDefinition, fake: Fake | None, heard: Heard) -> StepDefinition:
    call = step.fn if fake is None else fake

    async def run(*args: Any) -> Any:
        heard(step.name, args)
        result = call(*args)
        return await result if inspect.isawaitable(result) else result

    def run_in_thread(*args: Any) -> Any:
        heard(step.name, args)
        return call(*args)

    if fake is None and not step.is_async:
        return replace(step, fn=run_in_thread)
    return replace(step, fn=run, is_async=True)


def _unknown(key: StepKey, apps: Sequence[AppDefinition]) -> str:
    name = key if isinstance(key, str) else getattr(key, "__name__", repr(key))
    known = sorted({step for app in apps for step in app.activities})
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"steps: no step {name!r} in the apps of this test ({', '.join(map(repr, known))}){hint}"
