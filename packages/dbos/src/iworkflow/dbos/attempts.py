"""The attempts of a step, kept across workers: one row, written when one fails or beats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from iworkflow.core.codec import dumps, loads
from iworkflow.core.steps import AttemptState
from iworkflow.dbos.database import Database
from iworkflow.dbos.errors import LostRunError
from iworkflow.dbos.messages import Owner

_LOAD = "SELECT place, state FROM iwf.attempt WHERE workflow_id = $1"
_SAVE = """
WITH run AS MATERIALIZED (
    SELECT 1 FROM dbos.workflow_status
    WHERE workflow_uuid = $1 AND status = 'PENDING' AND owner_xid = $2 FOR NO KEY UPDATE)
INSERT INTO iwf.attempt (workflow_id, place, state) SELECT $1, $3, $4 FROM run
ON CONFLICT (workflow_id, place) DO UPDATE SET state = EXCLUDED.state
"""


async def load_attempts(database: Database, workflow_id: str) -> dict[int, AttemptState]:
    """Read what earlier dispatches of a run left, by place."""
    rows = await database.rows(_LOAD, workflow_id)
    return {row["place"]: _state(row["state"]) for row in rows}


@dataclass(slots=True)
class Book:
    """The `AttemptBook` of one step. Only the owner of the run can write it."""

    database: Database
    owner: Owner
    place: int
    earlier: AttemptState | None
    wrote: Callable[[], None]

    async def load(self) -> AttemptState | None:
        """Return what earlier dispatches left; it was read once for the whole run."""
        return self.earlier

    async def save(self, state: AttemptState) -> None:
        """Save the state.

        Raises:
            LostRunError: another execution owns the run by now.
        """
        self.wrote()
        text = dumps(state.to_json()).decode()
        done = await self.database.execute(
            _SAVE, self.owner.workflow_id, self.owner.token, self.place, text
        )
        if done.endswith(" 0"):
            raise LostRunError(self.owner.workflow_id)


def _state(text: str) -> AttemptState:
    return AttemptState.from_json(cast("Mapping[str, Any]", loads(text)))
