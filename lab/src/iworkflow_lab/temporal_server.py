"""A Temporal server for one arena: `python -m iworkflow_lab.temporal_server PORT FILE`.

Prints `ready`, and stops the server once its standard input closes: it is gone also when the lab
failed or was killed. A server that is started again on the same file goes on where it was.
"""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from iworkflow.temporal import dev


def free_port() -> int:
    """Return a port on which nothing listens now.

    None of those that a system gives to outgoing connections: one of these could take the port
    before the server does, or while it is restarted.
    """
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


async def hold(port: int, file: Path) -> None:
    """Run the server until nobody holds this process any more."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, told.set)

    def until_closed() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(told.set)

    async with dev.server(port, database=file):
        threading.Thread(target=until_closed, daemon=True).start()
        print("ready", flush=True)
        await told.wait()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(hold(int(sys.argv[1]), Path(sys.argv[2])))
