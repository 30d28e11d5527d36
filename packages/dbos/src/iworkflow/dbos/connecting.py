"""How DBOS's worker connects: a server that is away is waited for, whatever says so.

DBOS waits for a server that it cannot reach, but knows this by the driver's words, and those for a
Unix socket that is not there are not among them: a step that ends then, or a run's outcome, would
not be recorded, or be recorded as that error. It waits for ever, in a thread that keeps the process
from ending; so a worker that ends makes no connections any more, in words that DBOS does not know.
"""

from __future__ import annotations

from typing import Any

import psycopg

from iworkflow.dbos.settings import Location

_TIMEOUT = 10
_AWAITED = "connection failed"
"""The words by which DBOS knows that a connection could not be made."""


class Connector:
    """Makes DBOS's connections to a database, until `end`."""

    def __init__(self, location: Location) -> None:
        self._url = location.url
        self._ended = False

    def __call__(self) -> psycopg.Connection[Any]:
        """Connect, or fail in words for which DBOS tries again until the worker ends."""
        if self._ended:
            raise psycopg.OperationalError("the worker has ended")
        try:
            return psycopg.connect(
                self._url, connect_timeout=_TIMEOUT, application_name="dbos_transact"
            )
        except psycopg.OperationalError as error:
            raise psycopg.OperationalError(f"{_AWAITED}: {error}") from error

    def end(self) -> None:
        """Make no connection any more: what DBOS tries again then fails."""
        self._ended = True
