"""What a step may ask about its attempt, and how its signal behaves."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass

import pytest

from iworkflow.core.errors import Failure
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.steps import (
    StepInfo,
    StepScope,
    StepSignal,
    heartbeat,
    last_heartbeat,
    step_attempt,
    step_info,
    step_scope,
    step_signal,
)

INFO = StepInfo("lead-7", "run-1", "ioutreach", "outreach", "compose", 2, "paced")


@dataclass
class Page:
    number: int


@pytest.mark.parametrize(
    "function", [heartbeat, last_heartbeat, step_attempt, step_info, step_signal]
)
def test_outside_a_step(function: Callable[[], object]) -> None:
    """Outside a step each function raises `RuntimeError` and names itself."""
    with pytest.raises(RuntimeError, match=rf"^{function.__name__}\(\) works only inside a step"):
        function()


def test_facts_and_heartbeats() -> None:
    """Inside, they give the facts; a beat without details repeats the last ones."""
    beats: list[JsonValue] = []
    scope = StepScope(INFO, previous={"number": 6}, on_beat=beats.append)

    def step() -> None:
        step_scope.set(scope)
        assert (step_info(), step_attempt()) == (INFO, 2)
        assert last_heartbeat() == {"number": 6}
        heartbeat(Page(7))
        heartbeat()
        assert last_heartbeat(Page) == Page(6)
        scope.close()
        heartbeat(Page(8))

    copy_context().run(step)
    assert beats == [{"number": 7}, {"number": 7}]
    assert scope.latest == {"number": 7}


def test_bad_heartbeats() -> None:
    """Unencodable details raise `TypeError`, too large ones `Failure`; both leave the last."""
    scope = StepScope(INFO, max_payload=100)

    def step() -> None:
        step_scope.set(scope)
        assert last_heartbeat(Page) is None
        heartbeat(1)
        with pytest.raises(TypeError, match="heartbeat of step 'compose'"):
            heartbeat(object())
        with pytest.raises(Failure, match="heartbeat of step 'compose'") as caught:
            heartbeat("x" * 200)
        assert caught.value.type == "PayloadTooLarge"
        assert scope.latest == 1

    copy_context().run(step)


async def test_signal() -> None:
    """A signal wakes those who wait, on any loop, and keeps its first reason."""
    signal = StepSignal()
    signal.raise_if_cancelled()
    waiter = asyncio.ensure_future(signal.wait())
    begun = threading.Event()
    woken = threading.Event()

    async def other_loop() -> None:
        waiting = asyncio.ensure_future(signal.wait())
        await asyncio.sleep(0)
        begun.set()
        await waiting
        woken.set()

    thread = threading.Thread(target=asyncio.run, args=(other_loop(),))
    thread.start()
    await asyncio.to_thread(begun.wait, 5)
    assert not signal.cancelled
    signal.cancel("timeout")
    signal.cancel("another")
    await asyncio.wait_for(waiter, 5)
    await signal.wait()
    await asyncio.to_thread(thread.join, 5)
    assert woken.is_set()
    assert (signal.cancelled, signal.reason) == (True, "timeout")
    with pytest.raises(asyncio.CancelledError, match="timeout"):
        signal.raise_if_cancelled()


async def test_signal_after_a_loop_is_gone() -> None:
    """A waiter whose loop is closed, or that was cancelled, does not disturb the others."""
    signal = StepSignal()

    def abandoned() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(signal.wait())
        loop.run_until_complete(asyncio.sleep(0))
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()

    await asyncio.to_thread(abandoned)
    waiter = asyncio.ensure_future(signal.wait())
    await asyncio.sleep(0)
    signal.cancel("cancelled")
    await asyncio.wait_for(waiter, 5)


def test_import_needs_no_third_party() -> None:
    """Importing the steps imports no codec library and starts no thread."""
    code = (
        "import sys, threading, iworkflow.core.steps;"
        "print('msgspec' in sys.modules, threading.active_count())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False", "1"]
