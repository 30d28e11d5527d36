"""How much one workflow task asks of the server: what goes beyond waits for the next task.

Temporal ends a run whose task needs a message of more than 4 MiB, however small its parts are, and
holds a workflow for dead that computes for two seconds in one task. A short timer ends a task, and
it is in the history, so a replay divides the work in the same way.
"""

from __future__ import annotations

import asyncio

from temporalio import workflow

from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD, dumps
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import Operation, RunStep, SendSignal, Sleep, StartChild
from iworkflow.temporal.parking import Asked

_BYTES = DEFAULT_MAX_PAYLOAD
"""For a task; one value alone may have as much, and the answer to a query comes on top."""
MOST = 100
"""Operations of a task: on a machine with much else to do, each takes milliseconds."""
_COUNTED = "iwf.counted"
_TURN = 0.001


class Load:
    """The values that one run hands over, in their order."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._turn = asyncio.Lock()
        self._task: int = 0
        self._bytes = 0
        self._count = 0

    async def add(self, place: int, operation: Operation) -> None:
        """Return once the workflow task has room for what the operation carries."""
        if isinstance(operation, RunStep):
            await self._take(place, [*operation.args])
        elif isinstance(operation, StartChild):
            await self._take(place, [*operation.request.args])
        elif isinstance(operation, SendSignal):
            await self._take(place, operation.message.value)

    async def add_outcome(self, place: int, value: JsonValue) -> None:
        """Return once the workflow task has room for the outcome."""
        await self._take(place, value)

    async def _take(self, place: int, value: JsonValue) -> None:
        size = len(dumps(value))
        async with self._turn:
            while not self._fits(size):
                pause = Sleep(_TURN)
                self._asked.add(place, pause)
                await asyncio.sleep(pause.seconds)
            self._bytes += size
            self._count += 1

    def _fits(self, size: int) -> bool:
        task: int = workflow.info().get_current_history_length()
        if task != self._task:
            self._task, self._bytes, self._count = task, 0, 0
        if not self._count:
            return True
        return self._bytes + size <= _BYTES and (self._count < MOST or not _counts())


def _counts() -> bool:
    """Whether operations are counted: not in a run that asked for many before they were."""
    return workflow.patched(_COUNTED)
