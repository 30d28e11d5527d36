"""Workers that die, freeze, stop or are held up: their runs go on elsewhere and lose nothing."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import iwf_temporal_flows as flows
import iwf_temporal_steps as steps
import pytest

from iworkflow.core import AppDefinition, Handle, Target
from iworkflow.temporal import TemporalClient, TemporalRuntime, dev

Effects = Callable[[], list[str]]
Spawn = Callable[..., Awaitable[Any]]


async def until(condition: Callable[[], bool], *, within: float = 40) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_killed_worker_is_taken_over(
    client: TemporalClient, app_name: str, spawn: Spawn, effects: Effects
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


@pytest.mark.timeout(120)
async def test_a_zombie_records_nothing(
    client: TemporalClient, app_name: str, spawn: Spawn, effects: Effects
) -> None:
    """A frozen worker is taken over; woken up, it finishes its step and nothing of it counts."""
    first = await spawn(TEST_WORKER="one", TEST_SILENT_AFTER="5", TEST_SLOW="6")
    handle = await client.start(Target(app_name, "one_slow"), 3, id=f"{app_name}-r")
    await until(lambda: effects().count("begin-it") == 1)
    first.send(signal.SIGSTOP)
    await spawn(TEST_WORKER="two", TEST_SILENT_AFTER="5")
    await until(lambda: effects().count("begin-it") >= 2)
    first.send(signal.SIGCONT)
    assert await handle.result(timeout=30) == "it-by-two"
    other = await client.start(Target(app_name, "one_slow"), 0.1, id=f"{app_name}-s")
    assert (await other.result(timeout=20)).startswith("it-by-")


async def test_stop_lets_a_step_finish_and_hands_its_run_on(
    client: TemporalClient, app_name: str, spawn: Spawn, effects: Effects
) -> None:
    """A stopping worker records the step that runs and leaves the rest to another, at once."""
    first = await spawn(TEST_WORKER="one", TEST_SILENT_AFTER="60")
    handle = await client.start(Target(app_name, "one_slow"), 1, id=f"{app_name}-r")
    await first.says("begin it")
    first.send(signal.SIGTERM)
    await first.says("stopped")
    assert effects().count("end-it") == 1
    await spawn(TEST_WORKER="two")
    assert await handle.result(timeout=30) == "it-by-one"
    assert effects().count("begin-it") == 1


async def test_after_the_grace_a_step_goes_on_elsewhere(
    client: TemporalClient, app_name: str, spawn: Spawn, effects: Effects
) -> None:
    """A step that outlives the grace is cancelled, and the run goes on with another worker."""
    first = await spawn(TEST_WORKER="one", TEST_GRACE="0.2", TEST_SLOW="60", TEST_SILENT_AFTER="60")
    runs = [
        await client.start(Target(app_name, "one_slow"), 0.5, id=f"{app_name}-{i}")
        for i in range(4)
    ]
    await until(lambda: effects().count("begin-it") >= 4)
    await spawn(TEST_WORKER="two")
    first.send(signal.SIGTERM)
    await first.says("stopped", within=20)
    begun = time.monotonic()
    results = [await run.result(timeout=40) for run in runs]
    assert set(results) == {"it-by-two"}
    assert time.monotonic() - begun < 30


@pytest.mark.timeout(150)
@pytest.mark.parametrize("cached", ["1000", "0"])
async def test_what_was_begun_goes_on_where_it_was(
    client: TemporalClient, app_name: str, spawn: Spawn, effects: Effects, cached: str
) -> None:
    """Five runs and one kill: each goes on where it was, and repeats nothing.

    A message taken is not taken again and none is lost; a sleep ends when it would have ended; an
    attempt's number, its wait and its heartbeat are kept; branches that call the same step keep
    their own results.
    """
    first = await spawn(TEST_WORKER="one", TEST_CACHED=cached)

    async def begin(flow: str, *args: object) -> Handle[Any]:
        return await client.start(Target(app_name, flow), *args, id=f"{app_name}-{flow}")

    listens = await begin("listens")
    await until(lambda: "waiting" in effects())
    await listens.signal("topic", "a")
    await until(lambda: "got-a" in effects())
    asleep = time.time()
    sleeps = await begin("sleeps", 12)
    beats = await begin("remembers")
    await first.says("beaten")
    retries = await begin("retries_slowly")
    await first.says("attempt 2")
    chains = await begin("chains", 8)
    await until(lambda: sum(text.startswith("end-") for text in effects()) >= 5)
    await first.kill()

    await listens.signal("topic", "b")
    second = await spawn(TEST_WORKER="two", TEST_CACHED=cached)
    away = time.time() - asleep
    assert await listens.result(timeout=40) == ["a", "b"]
    assert await retries.result(timeout=40) == 3
    assert await beats.result(timeout=40) == 41
    branches = await chains.result(timeout=40)
    assert 12 <= await sleeps.result(timeout=40) < 12 + away
    assert effects().count("got-a") == 1
    await second.says("attempt 3")
    assert "attempt 1" not in second.lines
    names = [[text.split("-")[0] for text in chain] for chain in branches]
    assert names == [[f"{name}{i}" for i in range(8)] for name in "abc"]


@pytest.mark.timeout(180)
async def test_a_wait_outlives_its_server(
    tmp_path: Path, app_name: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the server is away, longer than Temporal's client tries, whoever waits goes on to."""
    monkeypatch.setenv("TEST_EFFECTS", str(tmp_path / "effects"))
    database = tmp_path / "server.db"
    app = AppDefinition(app_name, flows=[flows.listens], activities=[steps.note])
    async with dev.server(port, database=database) as address:
        client = TemporalClient(address)
        handle = await client.start(Target(app_name, "listens"), id=f"{app_name}-r")
        waiting = asyncio.create_task(handle.result(timeout=80))
        await asyncio.sleep(0.5)
    await asyncio.wait({waiting}, timeout=15)
    assert not waiting.done()
    async with dev.server(port, database=database), TemporalRuntime(address).running(app):
        await handle.signal("topic", "a")
        await handle.signal("topic", "b")
        assert await waiting == ["a", "b"]
        await client.close()


@pytest.mark.timeout(180)
async def test_a_result_waits_for_its_server(
    tmp_path: Path, app_name: str, port: int, monkeypatch: pytest.MonkeyPatch, effects: Effects
) -> None:
    """A step that ends while the server is away is recorded once it is back, not run again."""
    monkeypatch.setenv("TEST_EFFECTS", str(tmp_path / "effects"))
    database = tmp_path / "server.db"
    app = AppDefinition(app_name, flows=[flows.one_slow], activities=[steps.note, steps.slow])
    async with dev.server(port, database=database) as address:
        runtime = TemporalRuntime(address, silent_after=60)
        await runtime.start(app)
        client = TemporalClient(address)
        handle = await client.start(Target(app_name, "one_slow"), 3, id=f"{app_name}-r")
        await until(lambda: "begin-it" in effects())
    try:
        await until(lambda: "end-it" in effects())
        await asyncio.sleep(12)
        async with dev.server(port, database=database):
            assert str(await handle.result(timeout=20)).startswith("it-by-")
    finally:
        await runtime.stop(0)
        await client.close()
    assert effects() == ["first", "begin-it", "end-it"]


@pytest.mark.timeout(180)
async def test_a_client_that_ends(server: str) -> None:
    """Eighty short lives of clients, eight at once: each process ends with code 0."""
    line = [sys.executable, str(Path(__file__).with_name("short_lives.py")), server, "80"]
    process = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert json.loads(told) == {"0": 80}
