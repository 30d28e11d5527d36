"""The owner's app: its flow implements the contract."""

from datetime import timedelta

from profile_contracts import Created, Onboarding, Refused, organization_onboarding

from iworkflow.contracts import ContractContext, implements
from iworkflow.core import AppDefinition


async def is_known(code: str) -> bool:
    """Look a code up in the register."""
    return code.startswith("org-")


async def provision(code: str, approved_by: str) -> str:
    """Make the organisation and return its id."""
    return f"{code}/{approved_by}"


@implements(organization_onboarding)
async def onboarding(ctx: ContractContext, data: Onboarding) -> Created | Refused:
    """Check, wait for a manager, provision."""
    await ctx.set_state("state", "checking")
    known = await ctx.step(is_known, data.code)
    await ctx.set_state(organization_onboarding.queries["checks"], {"known": known})
    if not known:
        return Refused(ok=False, reason="unknown code")
    await ctx.set_state("state", "awaiting approval")
    approval = await ctx.recv(organization_onboarding.signals["approve"], timedelta(days=1))
    if approval is None:
        return Refused(ok=False, reason="nobody approved")
    await ctx.set_state("state", "provisioning")
    return Created(ok=True, organization_id=await ctx.step(provision, data.code, approval.by))


app = AppDefinition("iprofile", flows=[onboarding], activities=[is_known, provision])
