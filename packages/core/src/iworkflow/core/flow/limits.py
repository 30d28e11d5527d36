"""Timeouts of waits that share a topic's reader.

An engine may need long to look for a message. So a timer that has ended does not count before
the reader has looked, and found nothing that was sent in the timer's time. What the order log
says was delivered is delivered without a look. An engine that orders completions itself needs no
look, but may tell of a message before it tells of a timer that had ended when it was sent.
"""

from __future__ import annotations

import asyncio

from iworkflow.core.flow.entry import Air, Entry
from iworkflow.core.flow.inbox import Topic
from iworkflow.core.port import Completion, Host, Outcome, Receive


class Limits:
    """The timers of one dispatch that end waits for messages."""

    def __init__(self, host: Host, air: Air) -> None:
        self._host = host
        self._air = air

    async def settled(self, timer: Entry, completion: Completion) -> None:
        """Return once nothing is there for the timer's wait that was sent before its end."""
        timer.ended = completion
        topic = timer.limits
        while topic is not None and not timer.dropped:
            reader = topic.reader
            if reader is not None and reader.completion is not None:
                if reader.completion.at > completion.at:
                    return
                await topic.moved.wait()
            elif reader is None or reader.task is None:
                await topic.moved.wait()
            elif not await self._finds(reader, reader.task):
                return

    async def _finds(self, reader: Entry, task: asyncio.Task[Completion]) -> bool:
        assert isinstance(reader.operation, Receive)
        if not (task.done() or await self._host.look(reader.place, reader.operation)):
            return False
        await asyncio.wait({task})
        await asyncio.sleep(0)  # now its callbacks have run, too
        return reader.completion is not None

    def offer_ended(self, topic: Topic, sent: float) -> None:
        """Offer the timers that ended before the message of the topic's reader was sent."""
        for receipt in topic.waiting:
            timer = receipt.timer
            if timer is None or timer.completion is not None:
                continue
            ended = timer.ended or self._overdue(timer)
            if ended is not None and ended.at < sent:
                timer.completion = ended
                self._air.offer(timer)

    def _overdue(self, timer: Entry) -> Completion | None:
        """A timer that has ended, though the engine told of a message first."""
        if timer.due is None or timer.due > self._host.now():
            return None
        return Completion(Outcome(), timer.due)
