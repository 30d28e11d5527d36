"""An end to DBOS's retries.

A call of DBOS that finds no database is made again until there is one, in a thread that keeps the
process from ending. A worker that ends waits for none of them any more. The switch for that is
private to DBOS: where it is gone, such a process ends when its database is back.
"""

from __future__ import annotations

from typing import Any

from dbos import DBOS

_SYSTEM, _SWITCH = "_sys_db_field", "_retry_connection_errors"


def end_retries(dbos: DBOS) -> bool:
    """Let the calls that are retried, and later ones, fail; tell whether DBOS can do that."""
    system: Any = getattr(dbos, _SYSTEM, None)
    if not isinstance(getattr(system, _SWITCH, None), bool):
        return False
    setattr(system, _SWITCH, False)
    return True
