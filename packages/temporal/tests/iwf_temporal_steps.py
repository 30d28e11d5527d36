"""Steps for the tests; what they do is printed, and written down outside of the engine."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from iworkflow.core import (
    Failure,
    heartbeat,
    last_heartbeat,
    step_attempt,
    step_signal,
)

seen: list[str] = []
begun: list[str] = []
NAME = os.environ.get("TEST_WORKER", "w")


def say(line: str) -> None:
    print(line, flush=True)


def effect(text: str) -> None:
    with Path(os.environ["TEST_EFFECTS"]).open("a") as file:
        file.write(f"{text}\n")


async def double(number: int) -> int:
    return 2 * number


def plus_one(number: int) -> int:
    return number + 1


async def final() -> None:
    raise Failure("boom", type="Boom", details={"a": 1}, non_retryable=True)


async def always() -> None:
    raise ValueError("always")


async def hangs() -> None:
    await asyncio.sleep(60)


async def long() -> str:
    signal = step_signal()
    begun.append("long")
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        seen.append(f"cancelled {signal.cancelled}")
        raise
    return "done"


async def fails_until(attempt: int) -> int:
    say(f"attempt {step_attempt()}")
    if step_attempt() < attempt:
        raise ValueError("not yet")
    return step_attempt()


async def block(seconds: float) -> str:
    say("blocking")
    seen.append("blocking")
    time.sleep(seconds)  # noqa: ASYNC251 - the loop is to be held
    return "blocked"


async def note(text: str) -> str:
    effect(text)
    return text


async def slow(text: str, seconds: float) -> str:
    say(f"begin {text}")
    effect(f"begin-{text}")
    await asyncio.sleep(float(os.environ.get("TEST_SLOW", seconds)))
    effect(f"end-{text}")
    return f"{text}-by-{NAME}"


async def beats() -> int | None:
    last = last_heartbeat(result_type=int)
    if last is None:
        heartbeat(41)
        await asyncio.sleep(0.3)
        say("beaten")
        await asyncio.sleep(60)
    return last


running: list[int] = [0]
most: list[int] = [0]


async def counted(number: int, seconds: float) -> int:
    running[0] += 1
    most[0] = max(most[0], running[0])
    seen.append(str(number))
    try:
        await asyncio.sleep(seconds)
    finally:
        running[0] -= 1
    return number


async def reports_and_fails() -> None:
    seen.append(f"{step_attempt()} after {last_heartbeat(result_type=int)}")
    heartbeat(step_attempt())
    await asyncio.sleep(float(os.environ.get("TEST_FAILS_AFTER", "0.01")))
    raise ValueError("not yet")
