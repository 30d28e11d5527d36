"""The names that the adapter uses on the server, besides those of the user's."""

from __future__ import annotations

BIRTH = "iwf.birth"
"""The begin of the markers that record which patches a run was born with."""

DESCRIBE = "iwf.describe"
RESULT = "iwf.result"

STATE = "iwf.state"
"""The query that answers a key of the state, which is its argument."""

PRIORITY = "iwf.priority"
"""The memo that tells a run's priority in a list, where Temporal leaves it out."""


def pool_queue(app: str, pool: str | None) -> str:
    """Name the task queue of a pool; flows and steps without a pool have the app's own."""
    return app if pool is None else f"{app}/{pool}"


def service_queue(app: str) -> str:
    """Name the task queue of what the adapter does for itself; no pool has such a name."""
    return f"{app}:iwf"
