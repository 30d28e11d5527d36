"""The end of a worker's process, whatever its steps left running."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

_log = logging.getLogger("iworkflow.worker")

PATIENCE = 1.0
"""For how many seconds tasks that steps left behind may clean up."""


async def end_leftovers(code: int = 0) -> None:
    """Cancel the tasks that are left on this loop; end the process if one of them goes on.

    A step that swallows every cancel was left to itself when its worker stopped. `asyncio.run`
    would wait for it for ever; here the process ends at once then, with the exit code `code`.
    """
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    pending = (await asyncio.wait(left, timeout=PATIENCE))[1] if left else left
    if pending:
        names = ", ".join(sorted(task.get_name() for task in pending))
        _log.warning("ends although this ignores its cancel: %s", names)
        sys.stdout.flush()
        sys.stderr.flush()
        logging.shutdown()
        os._exit(code)
