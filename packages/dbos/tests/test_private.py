"""The two private names of DBOS: noticed when they move, and what happens then."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from dbos import DBOS, _queue

from iworkflow.dbos import queue, recovery


def test_the_queue_thread_is_as_we_know_it() -> None:
    """Fails when the engine moves: hops between apps would then take a second."""
    assert queue.private_thread() is _queue.queue_worker_thread


def test_the_recovery_is_as_we_know_it() -> None:
    """Fails when the engine moves: workers would then refuse to start."""
    recovery.check()


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
