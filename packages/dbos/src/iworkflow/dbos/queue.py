"""Taking runs from the app's queue as soon as they are there.

DBOS looks into a queue once a second. Its queue thread is run here with a stop event whose `wait`
also returns when we are woken. The thread's function is private to DBOS: where its name or its
signature is gone, the queue is left to DBOS's own polling, which is slower and works alike.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

from dbos import DBOS, Queue

log = logging.getLogger("iworkflow.dbos")

_MODULE, _NAME = "dbos._queue", "queue_worker_thread"
_PARAMETERS = ("stop_event", "dbos", "queue")
_JOIN = 15.0

Thread = Callable[[threading.Event, DBOS, Queue], None]


def private_thread() -> Thread | None:
    """Return DBOS's queue thread, or None where this version has it no more as we know it."""
    try:
        found: Any = getattr(importlib.import_module(_MODULE), _NAME)
        names = tuple(inspect.signature(found).parameters)
    except (ImportError, AttributeError, TypeError, ValueError):
        return None
    return found if names == _PARAMETERS else None


class WakeableStop(threading.Event):
    """An event whose `wait` returns early, and false, when it is woken."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._woken = False

    def wake(self) -> None:
        """Make the wait that goes on, or else the next one, return."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def set(self) -> None:
        """Set the event for good."""
        super().set()
        self.wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until set, woken or out of time; tell whether it is set."""
        with self._changed:
            self._changed.wait_for(lambda: self._woken or self.is_set(), timeout)
            self._woken = False
        return self.is_set()


class QueueListener:
    """Takes the runs of one queue, from `start` to `stop`."""

    def __init__(self) -> None:
        self._run = private_thread()
        self._stop = WakeableStop()
        self._thread: threading.Thread | None = None

    @property
    def polled(self) -> bool:
        """Whether DBOS has to poll the queue itself."""
        return self._run is None

    def start(self, dbos: DBOS, queue: Queue, *, ended: Callable[[BaseException], None]) -> None:
        """Begin to take runs.

        Args:
            dbos: the launched engine.
            queue: the queue.
            ended: called, in the thread, when it ends without `stop`.
        """
        run = self._run
        if run is None:
            log.warning("this version of dbos has no %s.%s: the queue is polled", _MODULE, _NAME)
            return

        def body() -> None:
            try:
                run(self._stop, dbos, queue)
            except BaseException as error:
                ended(error)
            else:
                if not self._stop.is_set():
                    ended(RuntimeError(f"the queue {queue.name!r} was deleted"))

        self._thread = threading.Thread(target=body, name=f"iworkflow-queue-{queue.name}")
        self._thread.daemon = True
        self._thread.start()

    def wake(self) -> None:
        """Look into the queue now."""
        self._stop.wake()

    def stop(self) -> None:
        """Take no more runs, and wait until the thread has ended. It blocks."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_JOIN)
