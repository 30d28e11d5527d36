"""Workers that die, freeze, stop or are held up: their runs go on elsewhere and lose nothing."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from iworkflow.core.client import Handle
from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition, Target
from iworkflow.dbos import DbosClient, DbosRuntime


async def known(ctx: Context) -> str:
    return "known"


Effects = Callable[[], list[str]]
Spawn = Callable[..., Awaitable[Any]]


async def until(condition: Callable[[], bool], *, within: float = 40) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_killed_worker_is_taken_over(
    client: DbosClient, app_name: str, spawn: Spawn, effects: Effects
) -> None:
    """A worker that is killed and never comes back: another goes on; what is recorded stays."""
    first = await spawn(TEST_WORKER="one", TEST_SLOW="60")
    handle = await client.start(Target(app_name, "one_slow"), 0.5, id=f"{app_name}-r")
    await first.says("begin it")
    await spawn(TEST_WORKER="two")
    await first.kill()
    begun = time.monotonic()
    assert await handle.result(timeout=20) == "it-by-two"
    assert time.monotonic() - begun < 20
    assert effects().count("first") == 1


async def test_a_zombie_records_nothing(
    client: DbosClient, app_name: str, spawn: Spawn, effects: Effects
) -> None:
    """A frozen worker is taken over; woken up, it finishes its step and nothing of it counts."""
    first = await spawn(TEST_WORKER="one", TEST_SILENT_AFTER="5", TEST_SLOW="6")
    handle = await client.start(Target(app_name, "one_slow"), 3, id=f"{app_name}-r")
    await first.says("begin it")
    first.send(signal.SIGSTOP)
    await spawn(TEST_WORKER="two", TEST_SILENT_AFTER="5")
    await until(lambda: effects().count("begin-it") >= 2)
    first.send(signal.SIGCONT)
    assert await handle.result(timeout=20) == "it-by-two"
    other = await client.start(Target(app_name, "one_slow"), 0.1, id=f"{app_name}-s")
    assert (await other.result(timeout=20)).startswith("it-by-")


async def test_a_held_up_loop_is_not_death(
    client: DbosClient, app_name: str, spawn: Spawn, effects: Effects
) -> None:
    """The beat comes from a thread: a step that blocks the event loop keeps its run."""
    first = await spawn(TEST_WORKER="one", TEST_SILENT_AFTER="5")
    second = await spawn(TEST_WORKER="two", TEST_SILENT_AFTER="5")
    handle = await client.start(Target(app_name, "blocks"), id=f"{app_name}-r")
    assert await handle.result(timeout=40) == "blocked"
    await first.kill()
    await second.kill()
    said = [*first.lines, *second.lines]
    for worker in (first, second):
        said += [line.decode().strip() async for line in worker.process.stdout]
    assert said.count("blocking") == 1


async def test_stop_lets_a_step_finish_and_hands_its_run_on(
    client: DbosClient, app_name: str, spawn: Spawn, effects: Effects
) -> None:
    """A stopping worker records the step that runs and leaves the rest to another, at once."""
    first = await spawn(TEST_WORKER="one")
    handle = await client.start(Target(app_name, "one_slow"), 1, id=f"{app_name}-r")
    await first.says("begin it")
    first.send(signal.SIGTERM)
    await first.says("stopped")
    assert effects().count("end-it") == 1
    await spawn(TEST_WORKER="two")
    assert await handle.result(timeout=30) == "it-by-one"
    assert effects().count("begin-it") == 1


async def test_after_the_grace_a_step_goes_on_elsewhere(
    client: DbosClient, app_name: str, spawn: Spawn, effects: Effects
) -> None:
    """A step that outlives the grace is cancelled, and the run goes on with another worker."""
    first = await spawn(TEST_WORKER="one", TEST_GRACE="0.2", TEST_SLOW="60")
    await spawn(TEST_WORKER="two")
    handle = await client.start(Target(app_name, "sleeps"), 0.1, id=f"{app_name}-warm")
    await handle.result(timeout=20)
    runs = [
        await client.start(Target(app_name, "one_slow"), 1, id=f"{app_name}-{i}") for i in range(4)
    ]
    await until(lambda: effects().count("begin-it") >= 4)
    first.send(signal.SIGTERM)
    await first.says("stopped", within=20)
    results = [await run.result(timeout=40) for run in runs]
    assert set(results) == {"it-by-two"}


@pytest.mark.timeout(150)
async def test_what_was_begun_goes_on_where_it_was(
    client: DbosClient, app_name: str, spawn: Spawn, effects: Effects
) -> None:
    """Six runs and one kill: each goes on where it was, and repeats nothing.

    A message taken is not taken again and none is lost; a sleep ends when it would have ended; an
    attempt's number, its wait and its heartbeat are kept; branches that call the same step keep
    their own results.
    """
    first = await spawn(TEST_WORKER="one")

    async def begin(flow: str, *args: object) -> Handle[Any]:
        return await client.start(Target(app_name, flow), *args, id=f"{app_name}-{flow}")

    waits = await begin("waits")
    await until(lambda: "waiting" in effects())
    await waits.signal("topic", "a")
    await until(lambda: "got-a" in effects())
    asleep = time.time()
    sleeps = await begin("sleeps", 12)
    beats = await begin("remembers")
    await first.says("beaten")
    retries = await begin("retries")
    await first.says("attempt 2")
    chains = await begin("chains", 8)
    await until(lambda: sum(text.startswith("end-") for text in effects()) >= 5)
    await first.kill()

    await waits.signal("topic", "b")
    second = await spawn(TEST_WORKER="two")
    away = time.time() - asleep
    assert await waits.result(timeout=40) == ["a", "b"]
    assert await retries.result(timeout=40) == 3
    assert await beats.result(timeout=40) == 41
    branches = await chains.result(timeout=40)
    assert 12 <= await sleeps.result(timeout=40) < 12 + away
    assert effects().count("got-a") == 1
    await second.says("attempt 3")
    assert "attempt 1" not in second.lines
    names = [[text.split("-")[0] for text in chain] for chain in branches]
    assert names == [[f"{name}{i}" for i in range(8)] for name in "abc"]


async def test_a_run_is_given_to_the_worker_that_knows_it(
    postgres: str,
    app_name: str,
    client: DbosClient,
    spawn: Spawn,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who cannot run them gives runs back after 2, 4 and 8 s, and does not take them again first.

    Each is told of once.
    """
    narrow = AppDefinition(app_name, flows=[known])
    async with DbosRuntime(postgres).running(narrow):
        start, born = client.start, Target(app_name, "born")
        handles = [await start(born, id=f"{app_name}-{n}") for n in range(8)]
        await until(lambda: caplog.text.count("waits for a worker") == 8)
        await spawn()
        begun = time.monotonic()
        assert [await handle.result(timeout=30) for handle in handles] == [True] * 8
        assert time.monotonic() - begun < 10
    assert caplog.text.count("waits for a worker") == 8
