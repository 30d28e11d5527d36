"""The same on bare DBOS at its defaults: `python -m iworkflow_lab.bench.raw callee|caller URL`.

Both print `ready` and end when their standard input closes. The callee serves its queue; the
caller runs both workflows and prints their times as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time

from dbos import DBOS, DBOSConfig

CALLEE, CALLER = "raw-echo", "raw-caller"


@DBOS.workflow(name="echo")
async def echo(number: int) -> int:
    """Return the number."""
    return number


@DBOS.step(name="nothing")
def nothing(number: int) -> int:
    """Do nothing, durably."""
    return number


@DBOS.workflow(name="children")
async def children(count: int) -> float:
    """Enqueue for another app and wait, one after the other."""
    begun = time.time()
    for n in range(count):
        handle = await DBOS.enqueue_workflow_with_options_async(
            {"queue_name": CALLEE, "workflow_name": "echo", "application_name": CALLEE}, n
        )
        await handle.get_result()
    return (time.time() - begun) / count


@DBOS.workflow(name="steps")
async def steps(count: int) -> float:
    """Run steps one after the other."""
    begun = time.time()
    for n in range(count):
        nothing(n)
    return (time.time() - begun) / count


def launch(name: str, url: str) -> None:
    """Start DBOS as an app of its own."""
    config: DBOSConfig = {
        "name": name,
        "system_database_url": url,
        "application_version": f"{name}-1",
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.launch()


async def serve(url: str) -> None:
    """Be the callee."""
    launch(CALLEE, url)
    await DBOS.register_queue_async(CALLEE)
    print("ready", flush=True)
    await asyncio.Event().wait()


async def measure(url: str, hops: int, count: int) -> None:
    """Be the caller, and print what it took."""
    launch(CALLER, url)
    print("ready", flush=True)
    await (await DBOS.start_workflow_async(steps, 5)).get_result()
    step = await (await DBOS.start_workflow_async(steps, count)).get_result()
    child = await (await DBOS.start_workflow_async(children, hops)).get_result()
    print(json.dumps({"child_round_trip": child, "sequential_step": step}), flush=True)
    await asyncio.Event().wait()


def _die_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


def main(argv: list[str]) -> None:
    """Read the command line."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    if argv[0] == "callee":
        asyncio.run(serve(argv[1]))
    else:
        asyncio.run(measure(argv[1], int(argv[2]), int(argv[3])))


if __name__ == "__main__":
    main(sys.argv[1:])
