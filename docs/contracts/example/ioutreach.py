"""A neighbour's app: it imports the contract, and nothing of the owner's."""

from profile_contracts import Created, Onboarding, Refused, organization_onboarding

from iworkflow.contracts import child_contract
from iworkflow.core import AppDefinition, Context


async def invite(organization_id: str) -> str:
    """Write to the organisation."""
    return f"invited {organization_id}"


async def outreach(ctx: Context, code: str) -> str:
    """Have the organisation taken in, then invite it."""
    outcome = await child_contract(ctx, organization_onboarding, Onboarding(code, "outreach"))
    match outcome:
        case Created():
            return await ctx.step(invite, outcome.organization_id)
        case Refused():
            return f"no: {outcome.reason}"


app = AppDefinition("ioutreach", flows=[outreach], activities=[invite])
