"""The order log: which completion came first, where more than one could.

While more than one operation is in the air, the next delivery is a choice, and what the flow
does next may depend on it. So the choices since the last record are recorded before anything
that the flow issued after them is started. If the process dies before, nothing that depended on
them was started. A run that never has two operations in the air records nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from iworkflow.core.port import Record

ORDER = "order"


class OrderLog:
    """The choices of one dispatch: those to follow, and those to record."""

    def __init__(self, history: Mapping[int, Record]) -> None:
        self._history = history
        self._since: list[int] = []
        self._script: deque[int] = deque()
        self._following = False
        self._place: int | None = None

    @property
    def next(self) -> int | None:
        """The place that the record says is delivered next, while one is followed."""
        return self._script[0] if self._script else None

    @property
    def wants_place(self) -> bool:
        """Whether a place for the record is due before the next operation's own."""
        return bool(self._since) and self._place is None

    def look(self, next_place: int) -> None:
        """Before an ambiguous delivery: follow the record at the next place, if there is one."""
        if self._since:
            return
        record = self._history.get(next_place)
        if record is not None and record.kind == ORDER:
            self._script = deque(record.order)
            self._following = True

    def delivered(self, place: int, *, ambiguous: bool) -> None:
        """Remember a delivery, from the first ambiguous one on."""
        if self._script:
            self._script.popleft()
        if ambiguous or self._since:
            self._since.append(place)

    def reserve(self, place: int) -> None:
        """Note the place of the record that is due."""
        self._place = place

    def finish(self) -> bool:
        """End a record that was followed; false if the code never came to its place."""
        if not self._following or self._script:
            return True
        fits = self._place is not None
        self._reset()
        return fits

    def due(self) -> tuple[int, list[int]] | None:
        """The record to write before anything is started: its place and the deliveries."""
        if self._following or self._place is None:
            return None
        due = self._place, self._since
        self._reset()
        return due

    def _reset(self) -> None:
        self._since = []
        self._following = False
        self._place = None
