"""The steps of the programs. In an arena of the lab they leave lines in its effect log."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from iworkflow.core import Failure, step_attempt
from iworkflow_lab.effects import FOLDER, here
from iworkflow_lab.gates import begin, cancelled, end

PAUSE = 0.15
"""Seconds that a step takes at most, in an arena: enough for a kill to find some in the air."""


class Swapped(Exception):
    """A step's result came back to another step."""


class Busy(Exception):
    """What a flaky step raises until its second attempt."""


def token(site: int, seen: int) -> str:
    """What a step at `site` that was called with `seen` returns."""
    return f"{site}:{seen}"


def parted(got: str) -> tuple[str, str]:
    """Part what a step returned into its token and the execution that made it."""
    mark, _, call = got.partition("#")
    return mark, call


async def effect(site: int, seen: int) -> str:
    """Return the token that only this call can get, and which execution it was."""
    with _noted(site, seen) as got:
        await _pause()
        return got


def plain(site: int, seen: int) -> str:
    """Do the same in a thread."""
    with _noted(site, seen) as got:
        if FOLDER in os.environ:
            time.sleep(random.uniform(0, PAUSE))
        return got


async def flaky(site: int, seen: int) -> str:
    """Fail once, then do the same."""
    with _noted(site, seen) as got:
        await _pause()
        if step_attempt() == 1:
            raise Busy(token(site, seen))
        return got


async def bad(site: int, seen: int) -> str:
    """Fail for good."""
    with _noted(site, seen) as got:
        await _pause()
        mark, call = parted(got)
        details = {"call": call}
        raise Failure(mark, type="Bad", details=details, non_retryable=True, benign=True)


async def hang(site: int, seen: int) -> None:
    """Go on until cancelled."""
    with _noted(site, seen):
        await asyncio.Event().wait()


async def _pause() -> None:
    if FOLDER in os.environ:
        await asyncio.sleep(random.uniform(0, PAUSE))


@contextmanager
def _noted(site: int, seen: int) -> Generator[str]:
    mark = token(site, seen)
    if FOLDER not in os.environ:
        yield f"{mark}#"
        return
    line = begin(mark)
    try:
        yield f"{mark}#{line.call}"
    except asyncio.CancelledError:
        cancelled(line)
        raise
    except Exception:
        here().append(replace(line, what="fail", at=time.time()))
        raise
    end(line)
