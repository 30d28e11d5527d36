"""Values: whatever type crosses the port, wherever it crosses, it comes back equal."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import pytest

from iworkflow.core import FlowError
from iworkflow_lab.apps.kinds import KINDS, Everything, everything, shown
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.stepping import APP, lines, target


async def test_S01_each_kind_comes_back(shared: Shared) -> None:
    """Each type of value, as argument and result of a step: equal, and of the same type."""
    arena = await shared.arena_of(APP)
    for kind, (_, value) in KINDS.items():
        handle = await arena.client.start(target("typed"), kind, id=f"s01-{kind}")
        assert await handle.result(timeout=60) is True, kind
        logged = [(line.key, line.result) for line in lines(shared, f"s01-{kind}", "end")]
        assert logged == [(kind, shown(value))]


@pytest.mark.parametrize("fails", [False, True])
async def test_S01_everything_everywhere(shared: Shared, fails: bool) -> None:
    """All kinds inside one another, in every place where a value can stand.

    Input and outcome of a flow, message, state, argument and result of a step, heartbeat, the
    details of a step's failure and of a run's.
    """
    arena = await shared.arena_of(APP)
    value, run = everything(), f"s01-everywhere-{fails}"
    handle = await arena.client.start(target("everywhere"), value, id=run)
    await handle.signal("value", value)
    await handle.signal("fail", fails)
    if fails:
        with pytest.raises(FlowError) as caught:
            await handle.result(timeout=60)
        assert caught.value.type == "Typed"
        assert caught.value.details_as(Everything) == value
    else:
        assert await handle.result(result_type=Everything, timeout=60) == value
    assert await handle.query("value", result_type=Everything) == value
    assert arena.log.ended(run) == {
        ("everything", "1"): 1,
        ("everything", "2"): 1,
        ("detailed", "detailed"): 1,
    }
