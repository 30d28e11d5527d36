"""Steps that wait until a scenario lets them go on, so that a kill falls at a known moment."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from iworkflow.core import step_info
from iworkflow_lab.effects import Effect, folder, here

POLL_SECONDS = 0.01


async def held(key: str, *, result: str = "") -> str:
    """Log the begin of a step, wait until it is let go, log its end.

    Returns `result`, or the unique id of this execution where none is given.
    """
    effect = begin(key)
    try:
        await let_go(effect)
    except asyncio.CancelledError:
        cancelled(effect)
        raise
    return end(effect, result or effect.call)


def free(key: str, *, result: str = "") -> str:
    """Log the begin and the end of a step that waits for nothing."""
    effect = begin(key)
    return end(effect, result or effect.call)


def begin(key: str) -> Effect:
    """Log that the step of this scope begins."""
    info = step_info()
    call = uuid4().hex[:12]
    effect = Effect("begin", info.workflow_id, info.step, key, call, worker=str(os.getpid()))
    here().append(effect)
    return effect


def end(effect: Effect, result: str = "") -> str:
    """Log that the step ends, with its result."""
    here().append(replace(effect, what="end", result=result, at=time.time()))
    return result


def cancelled(effect: Effect) -> None:
    """Log that the step was told to end early."""
    here().append(replace(effect, what="cancel", at=time.time()))


async def let_go(effect: Effect) -> None:
    """Wait until the execution, its key or the whole run is let go."""
    while not is_let_go(effect):
        await asyncio.sleep(POLL_SECONDS)


def blocked(key: str, *, result: str = "") -> str:
    """Do what `held` does, in the thread of a sync step."""
    effect = begin(key)
    while not is_let_go(effect):
        time.sleep(5 * POLL_SECONDS)
    return end(effect, result or effect.call)


def is_let_go(effect: Effect) -> bool:
    """Say whether the execution, its key or the whole run is let go."""
    names = (effect.call, f"{effect.run}.{effect.key}", f"{effect.run}.all")
    return any((folder() / "gates" / name).exists() for name in names)


def opened(arena: Path, name: str) -> None:
    """Let go whatever waits under the name: a call, `run.key`, or `run.all`."""
    gates = arena / "gates"
    gates.mkdir(exist_ok=True)
    (gates / name).touch()
