"""What the adapter does for its own flows in activities: births, and runs that are no child."""

from __future__ import annotations

import asyncio

from temporalio import activity

from iworkflow.core.definition import AppDefinition
from iworkflow.core.errors import FlowError
from iworkflow.core.port import Outcome
from iworkflow.temporal.attempts import BEAT
from iworkflow.temporal.client import Link
from iworkflow.temporal.envelope import outcome_to_json
from iworkflow.temporal.errors import data_of
from iworkflow.temporal.names import BIRTH, DESCRIBE, RESULT


class Services:
    """The activities, over a client of this process."""

    def __init__(self, app: AppDefinition, link: Link) -> None:
        self._app = app
        self._link = link

    @activity.defn(name=BIRTH)
    async def birth(self) -> list[str]:
        """Tell which patches the app declares; called in the first dispatch of a run."""
        return sorted(self._app.patches)

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
        beats = asyncio.create_task(_beat())
        try:
            return outcome_to_json(await self._link.result(workflow_id))
        except FlowError as error:
            return outcome_to_json(Outcome(error=data_of(error)))
        finally:
            beats.cancel()


async def _beat() -> None:
    while True:
        await asyncio.sleep(BEAT)
        activity.heartbeat()
