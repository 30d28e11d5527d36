"""What a scenario may need of an engine beyond the common contract."""

from __future__ import annotations

from enum import StrEnum


class Capability(StrEnum):
    """An engine that lacks one declares so, with the reason; a scenario is never just skipped."""

    QUERY_WITHOUT_WORKER = "query-without-worker"
    """A query is answered while no worker of the app lives."""
    SERVER = "server"
    """There is a server apart from worker and client, which can stop, restart or be cut off."""
    PROCESSES = "processes"
    """Workers and clients may live in several processes."""
    PACKAGE = "package"
    """The engine is a package of its own, next to core."""
