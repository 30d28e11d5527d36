"""Threads for sync steps.

`concurrent.futures` joins its threads when the interpreter exits, so one step that blocks for
ever would keep a stopped worker alive. These threads are daemons, and idle ones are used again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]


class StepThreads:
    """As many threads as there are jobs at once; who calls limits that number.

    No thread is started before the first job.
    """

    def __init__(self, name: str = "iworkflow-step") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._idle: deque[SimpleQueue[Job | None]] = deque()
        self._started = 0
        self._closed = False

    @property
    def idle(self) -> int:
        """How many threads wait for a job."""
        return len(self._idle)

    def submit(self, job: Job) -> None:
        """Run the job in a thread, now. It must not raise."""
        with self._lock:
            if self._idle:
                self._idle.pop().put(job)
                return
            self._started += 1
            number = self._started
        inbox: SimpleQueue[Job | None] = SimpleQueue()
        inbox.put(job)
        name = f"{self._name}-{number}"
        threading.Thread(target=self._work, args=(inbox,), name=name, daemon=True).start()

    def close(self) -> None:
        """Let idle threads end now and busy ones after their job; waits for none."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().put(None)

    def _work(self, inbox: SimpleQueue[Job | None]) -> None:
        while (job := inbox.get()) is not None:
            job()
            del job
            with self._lock:
                if self._closed:
                    return
                self._idle.append(inbox)
