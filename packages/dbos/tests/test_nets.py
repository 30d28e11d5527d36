"""Wake-ups are not needed, only fast: everything works without them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition
from iworkflow.dbos import DbosClient, DbosRuntime, queue
from iworkflow.dbos.notifier import Notifier
from iworkflow.dbos.wakeups import Wakeups


async def answer(number: int) -> int:
    return number + 1


async def child(ctx: Context, number: int) -> int:
    return await ctx.step(answer, number)


async def parent(ctx: Context) -> list[Any]:
    inner = await ctx.child(child, 1, id=f"{ctx.workflow_id}-child")
    return [inner, await ctx.recv("topic")]


async def run_once(postgres: str, app_name: str, client: DbosClient) -> float:
    app = AppDefinition(app_name, flows=[parent, child], activities=[answer])
    async with DbosRuntime(postgres).running(app):
        begun = time.monotonic()
        handle = await client.start(app.target(parent), id=f"{app_name}-r")
        while not await client.list(id_prefix=f"{handle.id}-child"):
            await asyncio.sleep(0.02)
        await handle.signal("topic", "word")
        assert await handle.result(timeout=30) == [2, "word"]
        return time.monotonic() - begun


async def test_notifications_dropped(
    postgres: str, app_name: str, client: DbosClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No notification arrives anywhere, not even in this process: the nets find everything."""
    monkeypatch.setattr(Notifier, "send", lambda *_: None)
    monkeypatch.setattr(Wakeups, "announce", lambda *_: None)
    monkeypatch.setattr(Wakeups, "_heard", lambda *_: None)
    monkeypatch.setattr(Wakeups, "_heard_dbos", lambda *_: None)
    await run_once(postgres, app_name, client)


async def test_the_private_thread_gone(
    postgres: str,
    app_name: str,
    client: DbosClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """DBOS polls the queue itself; a warning says so."""
    monkeypatch.setattr(queue, "private_thread", lambda: None)
    await run_once(postgres, app_name, client)
    assert "has no dbos._queue.queue_worker_thread: the queue is polled" in caplog.text


async def test_both_in_place(
    postgres: str, app_name: str, client: DbosClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the nets far apart, the wake-ups alone carry a child and a message."""
    monkeypatch.setenv("DBOS_QUEUE_POLL_MS", "20000")
    monkeypatch.setenv("DBOS_RESULT_POLL_MS", "20000")
    async with DbosClient(postgres) as waked:
        assert await run_once(postgres, app_name, waked) < 10
