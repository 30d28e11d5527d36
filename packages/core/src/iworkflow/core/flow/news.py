"""What a worker has told of the runs that wait.

An engine gives a run that is parked, or left for another worker, to the same worker again and
again. Why it waits is told once: it would bury whatever else the log says.
"""

from __future__ import annotations

from collections.abc import Callable


class News:
    """What one worker has told."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def tell(self, say: Callable[[str], object], run_id: str, why: str) -> None:
        """Say why a run waits, if that is not what was said of it before."""
        if (run_id, why) not in self._told:
            self._told.add((run_id, why))
            say(why)
