"""The app `iprofile`: look an organisation up. It runs in a worker process of its own."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from iworkflow.core import AppDefinition, Context, non_retryable, step_attempt
from iworkflow_lab.demo.journal import noted
from iworkflow_lab.demo.model import Profile


class RegisterBusyError(Exception):
    """The register does not answer now; the step is tried again."""


async def enrich(ctx: Context, code: str) -> Profile:
    """Find the profile of an organisation."""
    return await ctx.step(look_up, code, retry_interval=0.3)


def look_up(code: str) -> Profile:
    """Read the register.

    One organisation is struck off: no further attempt would help. For another the register is
    busy twice, and answers the third attempt.
    """
    with noted():
        entry = register()[code]
        if entry.get("struck_off"):
            raise non_retryable(f"{code} is struck off the register", type="StruckOff")
        if step_attempt() <= entry.get("busy", 0):
            raise RegisterBusyError(f"attempt {step_attempt()}: the register is busy")
        return Profile(entry["kind"], entry["members"], entry["since"])


def register() -> dict[str, dict[str, Any]]:
    """Return the shipped register, by code."""
    text = files("iworkflow_lab.demo").joinpath("profiles.json").read_text("utf-8")
    entries: dict[str, dict[str, Any]] = json.loads(text)
    return entries


app = AppDefinition(app="iprofile", flows=[enrich], activities=[look_up])
