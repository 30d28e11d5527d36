"""Who may run an attempt now: the pools and the limit of the process."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count

_Waiter = tuple[int, int, "asyncio.Future[None]"]


class Slot:
    """The right to run one attempt. `release` gives it back; a second call does nothing."""

    __slots__ = ("_give_back", "_held")

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._held = True

    def release(self) -> None:
        """Give the slot back. To be called on the event loop."""
        if self._held:
            self._held = False
            self._give_back()


class Slots:
    """Slots of one worker process: `limit` in all, and as many of each pool as it allows.

    Both are taken together: who waits for a full pool holds nothing. Waiting ones go by
    priority, then first come; nobody overtakes, and a full pool holds up nobody else.
    """

    def __init__(self, limit: int, pools: Mapping[str, int]) -> None:
        self._limit = limit
        self._free = limit
        self._pools: dict[str | None, int] = {None: limit}
        self._pools.update(pools)
        self._waiting: dict[str | None, list[_Waiter]] = {name: [] for name in self._pools}
        self._arrivals = count()
        self._frozen = False

    async def acquire(self, pool: str | None, priority: int) -> Slot:
        """Wait for a slot. A cancel while waiting takes none.

        Raises:
            LookupError: there is no such pool.
        """
        self._check(pool)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting[pool], (priority, next(self._arrivals), turn))
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(pool)
            raise
        return Slot(partial(self._release, pool))

    def take(self, pool: str | None) -> Slot | None:
        """Take a slot if one is free and nobody waits for it; None otherwise."""
        self._check(pool)
        if self._frozen or not self._free or not self._pools[pool]:
            return None
        self._enter(pool)
        return Slot(partial(self._release, pool))

    @property
    def held(self) -> int:
        """How many slots are taken."""
        return self._limit - self._free

    def freeze(self) -> None:
        """Grant no slot any more."""
        self._frozen = True

    def _release(self, pool: str | None) -> None:
        self._free += 1
        self._pools[pool] += 1
        self._grant()

    def _check(self, pool: str | None) -> None:
        if pool not in self._pools:
            raise LookupError(f"no pool {pool!r} (pools: {sorted(filter(None, self._pools))})")

    def _enter(self, pool: str | None) -> None:
        self._free -= 1
        self._pools[pool] -= 1

    def _grant(self) -> None:
        while self._free and not self._frozen:
            ready = [(queue[0], pool) for pool, queue in self._ready()]
            if not ready:
                return
            (_, _, turn), pool = min(ready, key=lambda entry: entry[0][:2])
            heapq.heappop(self._waiting[pool])
            self._enter(pool)
            turn.set_result(None)

    def _ready(self) -> Iterator[tuple[str | None, list[_Waiter]]]:
        for pool, queue in self._waiting.items():
            while queue and queue[0][2].done():
                heapq.heappop(queue)
            if queue and self._pools[pool] > 0:
                yield pool, queue
