"""How much of one sort a run has under way at once: what goes beyond waits for its turn.

Temporal fails a workflow task, again and again, after which a run would have more than 2,000
activities, children or signals to others pending. Turns come in the order of asking, so a replay
gives the same ones. An activity that was cancelled while it ran stays pending until its worker
answers, at most until that one counts as silent: the server refuses no more than the tasks of
those seconds, and there is a reserve for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

MOST = 1_900
"""What one run may have under way of each sort."""


class Pending:
    """What a run has under way of one sort; entered for as long as the server counts it.

    Args:
        full: called when something has to wait.
    """

    def __init__(self, full: Callable[[], object]) -> None:
        self._full = full
        self._count = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if self._count < MOST:
            self._count += 1
            return
        self._full()
        await self._turn()

    async def __aexit__(self, *raised: object) -> None:
        self._leave()

    def keep(self, child: asyncio.Future[Any]) -> None:
        """Count one until the child has ended, also after what started it has left."""
        self._count += 1
        child.add_done_callback(lambda _: self._leave())

    def drop(self) -> None:
        """Cancel whatever waits for its turn."""
        for turn in self._waiting:
            turn.cancel()

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        self._count -= 1
        while self._waiting and self._count < MOST:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._count += 1
