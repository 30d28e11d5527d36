"""A child in another app, and a step: ours on DBOS against bare DBOS, on one Postgres."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from iworkflow.core import Client
from iworkflow_lab.bench import apps
from iworkflow_lab.engines.dbos import DbosLab
from iworkflow_lab.processes import Process
from iworkflow_lab.servers import create_database, drop_database

OUR_HOPS, RAW_HOPS, STEPS = 40, 8, 200
WARM_UP = 5
RAW = "iworkflow_lab.bench.raw"
APPS = "iworkflow_lab.bench.apps"
LIMIT = 120.0


@dataclass(frozen=True, slots=True)
class Seconds:
    """What one side took for one of each."""

    child_round_trip: float
    sequential_step: float


async def hop() -> dict[str, dict[str, float]]:
    """Measure both sides, one after the other, on one server, and compare.

    `ours` and `raw` are milliseconds for one; `ratio` is raw / ours: how many times faster ours
    is.
    """
    lab = DbosLab()
    with lab.server(), tempfile.TemporaryDirectory(prefix="iwf-bench-") as folder:
        raw = await _raw(lab.server_url, Path(folder))
        ours = await _ours(lab, Path(folder))
    return {
        "child_round_trip": _compare(ours.child_round_trip, raw.child_round_trip),
        "sequential_step": _compare(ours.sequential_step, raw.sequential_step),
    }


def _compare(ours: float, raw: float) -> dict[str, float]:
    return {
        "ours": round(ours * 1000, 2),
        "raw": round(raw * 1000, 2),
        "ratio": round(raw / ours, 2),
    }


async def _raw(server: str, folder: Path) -> Seconds:
    url = await create_database(server)
    output = folder / "raw.log"
    try:
        callee = await Process.start([RAW, "callee", url], output=output)
        try:
            arguments = [RAW, "caller", url, str(RAW_HOPS), str(STEPS)]
            caller = await Process.start(arguments, output=output)
            try:
                return Seconds(**json.loads(await caller.line(LIMIT)))
            finally:
                await caller.kill()
        finally:
            await callee.kill()
    finally:
        await drop_database(server, url)


async def _ours(lab: DbosLab, folder: Path) -> Seconds:
    async with lab.arena(folder) as arena:
        await arena.worker(f"{APPS}:callee")
        await arena.worker(f"{APPS}:caller")
        await _measure(arena.client, "children", WARM_UP)
        await _measure(arena.client, "steps", WARM_UP)
        return Seconds(
            child_round_trip=await _measure(arena.client, "children", OUR_HOPS),
            sequential_step=await _measure(arena.client, "steps", STEPS),
        )


async def _measure(client: Client, flow: str, count: int) -> float:
    handle = await client.start(apps.caller.target(flow), count, id=f"{flow}-{count}")
    return await handle.result(result_type=float, timeout=LIMIT)
