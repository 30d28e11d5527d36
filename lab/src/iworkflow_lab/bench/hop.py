"""A child in another app, and a step: ours on DBOS against bare DBOS, on one Postgres.

Both sides run side by side and are measured in turn, round after round, so that a machine that is
busy for a while is busy for both.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from dbos import DBOSClient

from iworkflow_lab.bench import apps, raw
from iworkflow_lab.engines.dbos import DbosLab
from iworkflow_lab.processes import Process
from iworkflow_lab.servers import create_database, drop_database

ROUNDS = 7
HOPS, RAW_HOPS, STEPS = 8, 2, 50
APPS = "iworkflow_lab.bench.apps"
LIMIT = 120.0

Measure = Callable[[str, int], Awaitable[float]]
"""Runs a flow, `children` or `steps`, with a count, and returns the seconds for each."""


async def hop() -> dict[str, dict[str, float]]:
    """Measure both sides on one server, and compare.

    `ours` and `raw` are milliseconds for one, the median of the rounds; `ratio` is raw / ours:
    how many times faster ours is.
    """
    lab = DbosLab()
    with lab.server(), tempfile.TemporaryDirectory(prefix="iwf-bench-") as folder:
        async with _ours(lab, Path(folder)) as ours, _raw(lab.server_url, Path(folder)) as bare:
            for side in (ours, bare):
                await side("children", 1)
                await side("steps", STEPS)
            steps = [(await ours("steps", STEPS), await bare("steps", STEPS)) for _ in _rounds()]
            hops = [
                (await ours("children", HOPS), await bare("children", RAW_HOPS)) for _ in _rounds()
            ]
    return {"child_round_trip": _compare(hops), "sequential_step": _compare(steps)}


def _rounds() -> range:
    return range(ROUNDS)


def _compare(pairs: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "ours": round(median(ours for ours, _ in pairs) * 1000, 2),
        "raw": round(median(bare for _, bare in pairs) * 1000, 2),
        "ratio": round(median(bare / ours for ours, bare in pairs), 2),
    }


@asynccontextmanager
async def _ours(lab: DbosLab, folder: Path) -> AsyncGenerator[Measure]:
    count = 0
    async with lab.arena(folder) as arena:
        await arena.worker(f"{APPS}:callee")
        await arena.worker(f"{APPS}:caller")

        async def measure(flow: str, each: int) -> float:
            nonlocal count
            count += 1
            target = apps.caller.target(flow)
            handle = await arena.client.start(target, each, id=f"{flow}-{count}")
            return await handle.result(result_type=float, timeout=LIMIT)

        yield measure


@asynccontextmanager
async def _raw(server: str, folder: Path) -> AsyncGenerator[Measure]:
    url = await create_database(server)
    processes: list[Process] = []
    client = None
    try:
        for name in (raw.CALLEE, raw.CALLER):
            arguments = [raw.__name__, name, url]
            processes.append(await Process.start(arguments, output=folder / "raw.log"))
        client = DBOSClient(system_database_url=url)

        async def measure(flow: str, each: int) -> float:
            handle: Any = await client.enqueue_async(
                {
                    "queue_name": raw.CALLER,
                    "workflow_name": flow,
                    "application_name": raw.CALLER,
                },
                each,
            )
            return float(await handle.get_result())

        yield measure
    finally:
        if client is not None:
            client.destroy()
        for process in processes:
            await process.kill()
        await drop_database(server, url)
