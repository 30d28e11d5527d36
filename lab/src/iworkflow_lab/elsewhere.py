"""A client in a process of its own: `python -m iworkflow_lab.elsewhere ENGINE ID`.

Prints, as one line of JSON, what a run comes to.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from iworkflow.core import FlowError, engine


async def outcome(name: str, id: str) -> dict[str, Any]:
    """Wait for a run of the engine and return its value, or the members of its error."""
    async with engine(name).client() as client:
        try:
            return {"value": await client.handle(id).result()}
        except FlowError as error:
            return {"reason": error.reason, "type": error.type, "details": error.details}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(outcome(sys.argv[1], sys.argv[2]))), flush=True)
