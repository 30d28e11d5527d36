"""The same on bare DBOS at its defaults: `python -m iworkflow_lab.bench.raw APP URL`.

Each process serves the queue of its app. It prints `ready`, and ends when its standard input
closes.
"""

from __future__ import annotations

import asyncio
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
async def nothing(number: int) -> int:
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
        await nothing(n)
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


async def serve(name: str, url: str) -> None:
    """Serve the queue of an app."""
    launch(name, url)
    await DBOS.register_queue_async(name)
    print("ready", flush=True)
    await asyncio.Event().wait()


def _die_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


def main(argv: list[str]) -> None:
    """Read the command line."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    asyncio.run(serve(argv[0], argv[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
