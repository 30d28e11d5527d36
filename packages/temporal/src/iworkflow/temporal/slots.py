"""How many steps a worker takes from the server: one limit over all of its task queues.

Temporal reserves a slot before it polls, so a slot that every queue shares would be held by a
queue that is empty. Here a queue may poll while fewer steps than the limit run: at worst each
polling queue brings one more, which waits in the process for its turn (`Slots` of core).
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

from temporalio.worker import (
    CustomSlotSupplier,
    FixedSizeSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
    WorkerTuner,
)

_WORKFLOW_TASKS = 100


class SharedLimit:
    """Counts the steps of all queues; made on the event loop, told of changes from any thread."""

    def __init__(self, limit: int) -> None:
        self.lock = threading.Lock()
        self.used = 0
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def open(self) -> bool:
        """Whether another step may be taken."""
        return self.used < self._limit

    def change(self) -> asyncio.Future[None]:
        """Return what is done at the next change."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(waiter)
        return waiter

    def changed(self) -> None:
        """Tell that a slot came free."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop is closed
            pass

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


@dataclass(eq=False)
class _Permit(SlotPermit):
    used: bool = False


class QueueSlots(CustomSlotSupplier):
    """The slots of one task queue.

    Args:
        shared: the limit of the process.
        limit: how many steps of this queue may run.
    """

    def __init__(self, shared: SharedLimit, limit: int) -> None:
        self._shared = shared
        self._free = limit

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """Wait until the queue may poll."""
        while True:
            change = self._shared.change()
            permit = self.try_reserve_slot(ctx)
            if permit is not None:
                change.cancel()
                return permit
            await change

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """Reserve a slot if the queue may take a step now."""
        with self._shared.lock:
            if not self._free or not self._shared.open:
                return None
            self._free -= 1
            return _Permit()

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """Count a step that was taken."""
        if isinstance(ctx.permit, _Permit):
            with self._shared.lock:
                ctx.permit.used = True
                self._shared.used += 1

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """Give a slot back: the step has ended, or none came."""
        with self._shared.lock:
            self._free += 1
            if isinstance(ctx.permit, _Permit) and ctx.permit.used:
                self._shared.used -= 1
        self._shared.changed()


def tuner(slots: QueueSlots) -> WorkerTuner:
    """Return what a worker of a queue goes by."""
    return WorkerTuner.create_composite(
        workflow_supplier=FixedSizeSlotSupplier(_WORKFLOW_TASKS),
        activity_supplier=slots,
        local_activity_supplier=FixedSizeSlotSupplier(_WORKFLOW_TASKS),
        nexus_supplier=FixedSizeSlotSupplier(_WORKFLOW_TASKS),
    )
