"""The end of a process that has used Temporal.

A thread of Temporal's core that still lets go of its last answer while Python finalizes takes the
process down, with a crash in place of its exit code (temporalio/sdk-python, issue 300). What runs
before Python finalizes still gives these threads their turn.
"""

from __future__ import annotations

import atexit
import functools
import time

LAST_TURN = 0.05
"""Seconds at the end of the process."""


@functools.cache
def await_core() -> None:
    """Let the process end only after the core's threads had their turn. Once a process."""
    atexit.register(time.sleep, LAST_TURN)
