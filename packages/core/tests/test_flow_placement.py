"""Which runs a worker leaves to others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from iworkflow.core import AppDefinition, Context
from iworkflow.core.flow.placement import WAITS, Misplaced, check_placed
from iworkflow.core.port import RunInfo


async def known(ctx: Context) -> None:
    """Do nothing."""


def info(flow: str, *patches: str, younger: bool) -> RunInfo:
    return RunInfo(
        workflow_id="r",
        run_id="r",
        app="app",
        flow=flow,
        args=[],
        started_at=datetime.now(UTC),
        patches=frozenset(patches),
        younger=younger,
    )


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (info("known", younger=True), None),
        (info("known", "here", younger=True), None),
        (info("known", "gone", younger=False), None),
        (
            info("known", "here", "new", younger=True),
            (
                "run 'r' was born with patch 'new', and the code of this worker is older "
                "(patches: 'here'): it waits for a worker that declares it, or was started later"
            ),
        ),
        (
            info("other", younger=False),
            (
                "no flow 'other' in app 'app' (flows: 'known'): "
                "run 'r' is left, it waits for a worker that knows it"
            ),
        ),
    ],
)
def test_who_runs_it(run: RunInfo, told: str | None) -> None:
    """An id that is not declared was removed, if the run is older than the worker."""
    app = AppDefinition("app", flows=[known], patches=["here"])
    if told is None:
        check_placed(app, run)
        return
    with pytest.raises(Misplaced) as raised:
        check_placed(app, run)
    assert str(raised.value) == told
    assert WAITS in told
