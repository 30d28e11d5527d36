"""What the adapter does for its own flows in activities: runs that are no child of theirs."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import activity

from iworkflow.core.errors import ErrorData, FlowError, Reason
from iworkflow.core.port import Outcome
from iworkflow.temporal.client import Link
from iworkflow.temporal.envelope import outcome_to_json
from iworkflow.temporal.errors import FailedError, data_of
from iworkflow.temporal.heart import Heart
from iworkflow.temporal.names import DESCRIBE, RESULT


class Services:
    """The activities, over a client and the heart of this process."""

    def __init__(self, link: Link, heart: Heart) -> None:
        self._link = link
        self._heart = heart
        self._waiting: set[asyncio.Task[Any]] = set()

    @activity.defn(name=DESCRIBE)
    async def describe(self, workflow_id: str) -> object:
        """Tell whose run bears an id."""
        try:
            run = await self._link.describe(workflow_id)
        except FlowError as error:
            return outcome_to_json(Outcome(error=data_of(error)))
        return outcome_to_json(
            Outcome({"created": False, "app": run.app, "flow": run.flow, "status": str(run.status)})
        )

    @activity.defn(name=RESULT)
    async def result(self, workflow_id: str) -> object:
        """Wait for the outcome of a run, with beats."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        pulse = self._heart.begin(
            activity.info().task_token, lambda: loop.call_soon_threadsafe(task.cancel)
        )
        self._waiting.add(task)
        try:
            return outcome_to_json(await self._link.result(workflow_id))
        except FlowError as error:
            return outcome_to_json(Outcome(error=data_of(error)))
        except asyncio.CancelledError:
            raise _again() from None
        finally:
            self._waiting.discard(task)
            self._heart.end(pulse)

    async def hand_on(self) -> None:
        """End the waits, so that another worker goes on with them."""
        waiting = [*self._waiting]
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)


def _again() -> FailedError:
    """Let another worker wait, if the flow still does."""
    text = "the worker stops, or nobody waits any more"
    return FailedError(ErrorData(text, Reason.FAILED), retry_in=0.001, benign=True)
