"""The beats of the activities of one worker, from a thread of its own.

A step that holds up the event loop is not dead, so nothing here depends on that loop. The answer
to a beat tells that the activity was cancelled, or is not this worker's any more.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle, Client
from temporalio.service import RPCError, RPCStatusCode

from iworkflow.core.jsonvalue import JsonValue

log = logging.getLogger("iworkflow.temporal")

BEAT = 0.6
"""Seconds between two beats: a cancel is told with the answer to one."""

_PATIENCE = timedelta(seconds=5)
_AWAY = (
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.RESOURCE_EXHAUSTED,
)


@dataclass(slots=True, eq=False)
class Pulse:
    """One activity that is beaten for.

    `lost` is called, from the thread of the beats, when the activity was cancelled or belongs to
    another worker by now.
    """

    handle: AsyncActivityHandle
    lost: Callable[[], object]
    details: JsonValue = None
    beating: asyncio.Task[None] | None = None
    told: JsonValue = None
    """The details that the server has."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def beat(self) -> None:
        """Beat once. An answer that does not come is left to the next beat.

        One beat goes after another: the server keeps what arrives last, and a beat that is
        overtaken would put back what an attempt has told since.
        """
        async with self.turn:
            await self._beat()

    async def _beat(self) -> None:
        details = self.details
        try:
            await self.handle.heartbeat(details, rpc_timeout=_PATIENCE)
            self.told = details
        except AsyncActivityCancelledError:
            self.lost()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                self.lost()
            else:
                log.debug("a beat did not reach the server: %s", error)

    async def report(self, result: object) -> None:
        """Tell the server the result, if it still wants it, for as long as it is away."""
        while True:
            try:
                if isinstance(result, Exception):
                    await self.handle.fail(result, last_heartbeat_details=self._untold())
                else:
                    await self.handle.complete(result)
            except RPCError as error:
                if error.status not in _AWAY:
                    _not_taken(error)
                    return
                await asyncio.sleep(BEAT)
            else:
                return

    def _untold(self) -> list[JsonValue]:
        """Return the details that no beat brought to the server.

        Where they and the failure are too much for one message, a later beat brings them.
        """
        return [] if self.details is self.told else [self.details]


def _not_taken(error: RPCError) -> None:
    if error.status is RPCStatusCode.NOT_FOUND:
        log.debug("the result of an attempt was not wanted: %s", error)
    else:
        log.warning(
            "Temporal refused the result of an attempt, which is made again after the silence "
            "of the worker: %s",
            error,
        )


class Heart:
    """Beats for all activities of a worker, from `start` to `stop`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pulses: set[Pulse] = set()
        self._thread = threading.Thread(target=self._run, name="iworkflow-heart", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for its end. It blocks for as long as a beat takes."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def begin(self, token: bytes, lost: Callable[[], object], details: JsonValue = None) -> Pulse:
        """Begin to beat for an activity."""
        handle = self._client.get_async_activity_handle(task_token=token)
        pulse = Pulse(handle, lost, details)
        self._loop.call_soon_threadsafe(self._pulses.add, pulse)
        return pulse

    def end(self, pulse: Pulse) -> None:
        """Beat for it no more."""
        self._loop.call_soon_threadsafe(self._pulses.discard, pulse)

    async def flush(self, pulse: Pulse) -> None:
        """Beat now, and return once the server has the details."""
        sent: Future[Any] = asyncio.run_coroutine_threadsafe(pulse.beat(), self._loop)
        await asyncio.wrap_future(sent)

    async def report(self, pulse: Pulse, result: object) -> None:
        """Report the result of an activity, a value or an error, while it is still beaten for."""
        sent: Future[Any] = asyncio.run_coroutine_threadsafe(pulse.report(result), self._loop)
        await asyncio.wrap_future(sent)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        beating = self._loop.create_task(self._beat())
        self._loop.run_forever()
        beating.cancel()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(beating, return_exceptions=True))
        self._loop.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            for pulse in self._pulses:
                if pulse.beating is None or pulse.beating.done():
                    pulse.beating = self._loop.create_task(pulse.beat())
