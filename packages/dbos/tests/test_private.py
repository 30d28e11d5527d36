"""The three private names of DBOS: noticed when they move, and what happens then."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import pytest
from dbos import DBOS, _queue

from iworkflow.core import AppDefinition, Context
from iworkflow.dbos import giving_up, queue, recovery
from iworkflow.dbos.worker import DbosWorker


def test_the_queue_thread_is_as_we_know_it() -> None:
    """Fails when the engine moves: hops between apps would then take a second."""
    assert queue.private_thread() is _queue.queue_worker_thread


def test_the_recovery_is_as_we_know_it() -> None:
    """Fails when the engine moves: workers would then refuse to start."""
    recovery.check()


async def test_the_switch_of_the_retries_is_as_we_know_it(postgres: str, app_name: str) -> None:
    """Fails when the engine moves: a worker that lost its database would then not end."""
    worker = DbosWorker(postgres)
    await worker.start(AppDefinition(app=app_name, flows=[flow]))
    try:
        assert worker.dbos is not None
        assert giving_up.end_retries(worker.dbos)
    finally:
        await worker.stop(0)


async def flow(ctx: Context) -> None:
    """Do nothing."""


def test_a_moved_switch() -> None:
    """Gone: nothing happens."""
    assert not giving_up.end_retries(cast("DBOS", object()))


@pytest.mark.parametrize("change", ["gone", "other"])
def test_a_moved_queue_thread(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name or signature gone: the queue is left to DBOS."""
    if change == "gone":
        monkeypatch.delattr(_queue, "queue_worker_thread")
    else:
        monkeypatch.setattr(_queue, "queue_worker_thread", lambda stop, engine: None)
    assert queue.private_thread() is None
    assert queue.QueueListener().polled


@pytest.mark.parametrize("change", ["gone", "other"])
def test_a_moved_recovery(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, with the versions of dbos that have it."""
    if change == "gone":
        monkeypatch.delattr(DBOS, "_recover_pending_workflows")
    else:
        monkeypatch.setattr(DBOS, "_recover_pending_workflows", list)
    with pytest.raises(RuntimeError, match=r"run \"pip install 'dbos>=3.4,<3.5'\""):
        recovery.check()


def test_a_wakeable_stop() -> None:
    """Its wait returns false when woken, also when woken before, and true for good once set."""
    stop = queue.WakeableStop()
    stop.wake()
    assert stop.wait(5) is False
    begun = time.monotonic()
    assert stop.wait(0.05) is False
    assert time.monotonic() - begun >= 0.04
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(stop.wait(10)))
    thread.start()
    stop.set()
    thread.join(5)
    assert results == [True]
    assert stop.wait(10) is True
    assert stop.wait(10) is True
