"""How DBOS's worker connects: a server that is away is waited for, whatever says so.

DBOS waits for a server that it cannot reach, but knows this by the driver's words, and those for a
Unix socket that is not there are not among them: a step that ends then, or a run's outcome, would
not be recorded, or be recorded as that error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from iworkflow.dbos.settings import Location

_TIMEOUT = 10
_AWAITED = "connection failed"
"""The words by which DBOS knows that a connection could not be made."""


def connector(location: Location) -> Callable[[], psycopg.Connection[Any]]:
    """Return what makes DBOS's connections to a database."""

    def connect() -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(
                location.url, connect_timeout=_TIMEOUT, application_name="dbos_transact"
            )
        except psycopg.OperationalError as error:
            raise psycopg.OperationalError(f"{_AWAITED}: {error}") from error

    return connect
