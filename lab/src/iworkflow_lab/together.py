"""Two engines in one process: `python -m iworkflow_lab.together FIRST SECOND`.

Both run the same app on one event loop, and each has a run of the same id. The first is stopped
while the second goes on. Prints, as one line of JSON, what each came to and what was left behind.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Any

from iworkflow.core import Client, Handle, Runtime, Target, engine
from iworkflow_lab.apps.lifecycle import app
from iworkflow_lab.until import until

ECHOES: Target[list[str]] = Target("lifecycle", "echoes")
ID = "together"


class Side:
    """One of the two engines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runtime: Runtime = engine(name).runtime()
        self.client: Client = engine(name).client()

    async def open(self) -> Handle[list[str]]:
        """Start the worker and a run that waits for a message."""
        await self.runtime.start(app)
        return await self.begin(ID)

    async def begin(self, id: str) -> Handle[list[str]]:
        """Start a run and wait until it shows its word."""
        handle = await self.client.start(ECHOES, f"{self.name} began", id=id)

        async def shown() -> bool:
            return bool(await handle.query("word") == f"{self.name} began")

        await until(shown, f"{self.name} shows its word")
        return handle

    async def finish(self, handle: Handle[list[str]]) -> list[str]:
        """Send the message and wait for the result."""
        await handle.signal("word", f"{self.name} ended")
        return await handle.result(timeout=20)

    async def close(self) -> None:
        """Stop the worker, see that `done` returns, and close the client."""
        await self.runtime.stop(grace=5)
        await self.runtime.done()
        await self.client.close()


async def play(first: Side, second: Side) -> dict[str, Any]:
    """Run both, stop one after the other."""
    runs = [await first.open(), await second.open()]
    results = [await second.finish(runs[1])]
    alone = [run.id for run in await first.client.list(status="running")]
    results.insert(0, await first.finish(runs[0]))
    await first.close()
    results.append(await second.finish(await second.begin(f"{ID}-later")))
    await second.close()
    return {"results": results, "still_running": alone}


def main() -> None:
    """Play, then look at what is left."""
    sides = [Side(name) for name in sys.argv[1:3]]
    told = asyncio.run(play(*sides))
    threads = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    print(json.dumps({**told, "threads": threads}), flush=True)


if __name__ == "__main__":
    main()
