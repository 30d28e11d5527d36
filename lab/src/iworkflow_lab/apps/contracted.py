"""The owner's app: a flow that keeps to its contract, and paths on which it does not."""

from __future__ import annotations

from typing import Any, cast

from iworkflow.contracts import ContractContext, implements
from iworkflow.core import AppDefinition
from iworkflow_lab.apps.pact import Created, Onboarding, Refused, onboarding
from iworkflow_lab.gates import free, held


async def work(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await held(key, result=key)


async def quick(key: str) -> str:
    """Return the key at once."""
    return free(key, result=key)


async def onboard(ctx: ContractContext, data: Onboarding) -> Created | Refused:
    """Check, provision once a manager approved, and say so on the way."""
    await ctx.step(quick, "first")
    await ctx.set_state("state", "checking")
    await ctx.set_state(onboarding.queries["status"], {"done": 1})
    if data.path == "refuse":
        return Refused("no")
    if data.path == "skip":
        return Created("too early")
    if data.path == "strange":
        return cast("Created", {"organization_id": 7})
    if data.path == "held":
        await ctx.step(work, "k")
    await ctx.set_state("state", "provisioning")
    approval = await ctx.recv(onboarding.signals["approve"])
    return Created("nobody" if approval is None else approval.by)


async def stranger(ctx: Any, data: Any) -> dict[str, Any]:
    """Come to what is no outcome of the contract, as a worker that knows none may."""
    return {"ok": False, "organization_id": "7"}


app = AppDefinition(
    app="contracted", flows=[implements(onboarding)(onboard)], activities=[work, quick]
)
foreign = AppDefinition(app="contracted", flows={onboarding.name: stranger})
