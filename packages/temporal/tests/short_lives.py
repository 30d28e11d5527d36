"""Client processes that ask once and end: `short_lives.py ADDRESS COUNT` prints their exit codes.

They are forks of one that has imported everything: a process of its own for each takes long.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from contextlib import suppress

from iworkflow.core import FlowError
from iworkflow.temporal import TemporalClient

AT_ONCE = 8


async def ask(address: str) -> None:
    async with TemporalClient(address) as client:
        with suppress(FlowError):
            await client.handle("none").describe()


def main(address: str, count: int) -> None:
    codes: Counter[int] = Counter()
    for begun in range(count + AT_ONCE):
        if begun >= AT_ONCE:
            codes[os.waitstatus_to_exitcode(os.wait()[1])] += 1
        if begun < count and os.fork() == 0:
            return asyncio.run(ask(address))
    print(json.dumps(codes))
    return None


main(sys.argv[1], int(sys.argv[2]))
