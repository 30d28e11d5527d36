"""Hints before they change, and no flow `later`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iworkflow.core import AppDefinition, Context
from iworkflow_lab.gates import free
from iworkflow_lab.gates import held as hold


@dataclass(frozen=True)
class Made:
    """What a step returns."""

    items: list[int | str]


async def held(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await hold(key, result=key)


async def make(key: str) -> Made:
    """Leave a line in the effect log, return a number and a text."""
    return Made([1, free(key, result="two")])


async def reads(ctx: Context, value: str) -> list[Any]:
    """Make something, and wait in a gate."""
    made = await ctx.step(make, "made")
    return [made, value, await ctx.step(held, "gate")]


async def takes(ctx: Context, value: str) -> list[Any]:
    """Wait in a gate."""
    return [value, await ctx.step(held, "gate")]


async def receives(ctx: Context) -> list[Any]:
    """Wait in a gate, then take two messages."""
    await ctx.step(held, "gate")
    return [await ctx.recv("mail", result_type=str), await ctx.recv("mail", result_type=str)]


app = AppDefinition(app="hints", flows=[reads, takes, receives], activities=[held, make])
