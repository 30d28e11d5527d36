"""A neighbour's app: it runs the contract's process as a child."""

from __future__ import annotations

from typing import Any

from iworkflow.contracts import INVALID_WORKFLOW_ID, child_contract, start_child_contract
from iworkflow.core import AppDefinition, Context, Failure
from iworkflow_lab.apps.pact import Approval, Created, Onboarding, Refused, onboarding
from iworkflow_lab.gates import free, held


async def work(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await held(key, result=key)


async def quick(key: str) -> str:
    """Return the key at once."""
    return free(key, result=key)


async def runs(ctx: Context, code: str, path: str) -> str:
    """Run the process, tell its outcome, and wait in the gate of `after`."""
    await ctx.step(quick, "before")
    outcome = await child_contract(ctx, onboarding, Onboarding(code, path))
    await ctx.step(work, "after")
    match outcome:
        case Created():
            return f"created {outcome.organization_id}"
        case Refused():
            return f"refused {outcome.reason}"


async def starts(ctx: Context, code: str) -> list[Any]:
    """Start the process, approve of it, tell its outcome."""
    child = await start_child_contract(ctx, onboarding, Onboarding(code))
    await child.signal(onboarding.signals["approve"], Approval("a neighbour"))
    outcome = await child.result()
    return [child.id, child.created, outcome.ok]


async def catches(ctx: Context, code: str) -> str:
    """Tell what an input without an id raises."""
    try:
        await child_contract(ctx, onboarding, Onboarding(code))
    except Failure as error:
        return f"{error.type == INVALID_WORKFLOW_ID} {error}"
    return "nothing"


app = AppDefinition(app="neighbours", flows=[runs, starts, catches], activities=[work, quick])
