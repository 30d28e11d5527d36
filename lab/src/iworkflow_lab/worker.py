"""A worker process of the lab: `python -m iworkflow_lab.worker ENGINE pkg.mod:app [SETTINGS]`.

Prints `ready` once it takes runs, and `stops` once it has had a SIGTERM and begins to stop. It ends
at once when its standard input closes: no worker outlives the lab that started it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import signal
import sys
import threading
from typing import Any

from iworkflow.core import AppDefinition
from iworkflow.core.cli.leaving import end_leftovers
from iworkflow.core.engines import engine
from iworkflow_lab.lines import log_lines

GRACE = 0.5
"""How long the lab's workers let steps finish, unless a scenario says otherwise."""


def load(reference: str) -> AppDefinition:
    """Import the definition at `module:attribute`."""
    module, _, attribute = reference.partition(":")
    app = getattr(importlib.import_module(module), attribute or "app")
    assert isinstance(app, AppDefinition)
    return app


async def serve(name: str, reference: str, settings: dict[str, Any]) -> None:
    """Run a worker until it is told to stop or breaks."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    grace = settings.pop("grace", GRACE)
    runtime = engine(name).runtime(**settings)
    async with runtime.running(load(reference), grace=grace):
        print("ready", flush=True)
        done = asyncio.ensure_future(runtime.done())
        stop = asyncio.ensure_future(told.wait())
        await asyncio.wait({done, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if done.done():
            done.result()
        done.cancel()
        print("stops", flush=True)
    await end_leftovers()


def _die_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


def main() -> None:
    """Read the command line and serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    handler = logging.StreamHandler()
    handler.setFormatter(log_lines())
    logging.basicConfig(handlers=[handler])
    settings: dict[str, Any] = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    asyncio.run(serve(sys.argv[1], sys.argv[2], settings))


if __name__ == "__main__":
    main()
