"""The app `ioutreach`: write to an organisation, wait for its answer, remind it once.

The flow is an ordinary coroutine. Each `await ctx...` is recorded by the engine as it happens;
when a worker dies, another one runs the coroutine again, hands it what is recorded, and goes on
where the first one stopped. Nothing in this file names an engine.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from iworkflow.core import AppDefinition, Context, Target
from iworkflow_lab.demo.journal import noted
from iworkflow_lab.demo.letters import post
from iworkflow_lab.demo.model import Lead, Outcome, Profile

REPLY_TIMEOUT = timedelta(seconds=2)
"""A day, in life; the demo has less patience."""


async def outreach(ctx: Context, lead: Lead) -> Outcome:
    """Write to one organisation and wait for what it says."""
    # A step does the work of the world. Its result is recorded: it is composed once.
    draft = await ctx.step(compose, lead)

    # A child is a flow of its own, here of another app in another process, under an id of its own.
    enriched = Target("iprofile", "enrich", Profile)
    profile = await ctx.child(enriched, lead.code, id=f"{ctx.workflow_id}-p")

    # Only two letters at a time go through a pool called "paced", whatever number of flows run.
    await ctx.step(send, lead, draft, profile, pool="paced")

    # Waiting costs nothing and outlives every worker. None: the time was up.
    reply = await ctx.recv("reply", timeout=REPLY_TIMEOUT, result_type=str)

    # A run keeps the version that it was born with: older runs never ask twice.
    if reply is None and await ctx.patched("send-twice"):
        await ctx.step(remind, lead, attempts=20, retry_interval=120, backoff=1.5, pool="paced")

    # Whoever has the id may ask for it: `handle.query("status")`.
    await ctx.set_state("status", {"reply": reply})
    return Outcome(draft=draft, profile=profile, reply=reply)


async def compose(lead: Lead) -> str:
    """Draft the letter."""
    with noted():
        await asyncio.sleep(0.05)
        return f"Dear {lead.contact}, would {lead.name} join us in {lead.city} this spring?"


async def send(lead: Lead, draft: str, profile: Profile) -> None:
    """Put the letter into the post."""
    with noted():
        await asyncio.sleep(0.2)
        reason = f"We write to you as a {profile.kind} with {profile.members} members."
        post("letter", lead, f"{draft}\n\n{reason}\n")


def remind(lead: Lead) -> None:
    """Put a reminder into the post; a plain function does for a step, too."""
    with noted():
        post("reminder", lead, f"Dear {lead.contact}, did our letter reach you?\n")


app = AppDefinition(
    app="ioutreach",
    flows=[outreach],
    activities=[compose, send, remind],
    pools={"paced": 2},
    patches=["send-twice"],
    max_concurrent_steps=20,
)
