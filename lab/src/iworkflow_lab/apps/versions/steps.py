"""The steps of every version."""

from __future__ import annotations

from iworkflow_lab.gates import free
from iworkflow_lab.gates import held as hold

NEW_WAY = "new-way"


async def held(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await hold(key, result=key)


async def noted(key: str) -> str:
    """Leave a line in the effect log, return the key."""
    return free(key, result=key)
