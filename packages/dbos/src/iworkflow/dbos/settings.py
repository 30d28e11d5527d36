"""Which database: a URL given, `DBOS_SYSTEM_DATABASE_URL`, or the embedded Postgres."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from iworkflow.dbos import embedded

URL_VARIABLE = "DBOS_SYSTEM_DATABASE_URL"
_SCHEMES = ("postgresql", "postgres")

logger = logging.getLogger("iworkflow.dbos")


@dataclass(frozen=True, slots=True)
class Location:
    """Where the database is."""

    url: str
    source: str
    """What named it, for a person."""

    @property
    def shown(self) -> str:
        """Host, port and database of the URL; no user, no password."""
        parts = urlsplit(self.url)
        query = parse_qs(parts.query)
        host = parts.hostname or (query.get("host") or ["localhost"])[0]
        port = f":{parts.port or 5432}" if not host.startswith("/") else ""
        return f"{host}{port}/{unquote(parts.path.lstrip('/')) or 'postgres'}"


@dataclass(frozen=True, slots=True)
class Polling:
    """How often the nets look, in seconds; wake-ups come before them."""

    queue: float = 1.0
    results: float = 1.0

    @classmethod
    def from_environment(cls) -> Polling:
        """Read `DBOS_QUEUE_POLL_MS` and `DBOS_RESULT_POLL_MS`."""
        return cls(
            queue=_milliseconds("DBOS_QUEUE_POLL_MS", 1.0),
            results=_milliseconds("DBOS_RESULT_POLL_MS", 1.0),
        )


def application_version(app: str) -> str:
    """Name the version under which the runs of an app are kept across deployments."""
    return os.environ.get("DBOS_APPLICATION_VERSION") or f"{app}-patching"


def locate(url: str | None = None) -> Location:
    """Find the database, start the embedded one if none is named, and say so in one line.

    Raises:
        ValueError: the URL is not one of Postgres, or names no database.
        RuntimeError: no URL is set and the extra `embedded` is not installed.
    """
    location = _locate(url)
    logger.info("using Postgres at %s (%s)", location.shown, location.source)
    return location


def _locate(url: str | None) -> Location:
    if url is not None:
        return Location(_checked(url, "url"), "the URL given")
    named = os.environ.get(URL_VARIABLE)
    if named:
        return Location(_checked(named, URL_VARIABLE), URL_VARIABLE)
    directory = embedded.home() / "postgres"
    return Location(embedded.start(directory), f"embedded, in {directory}")


def _checked(url: str, name: str) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in _SCHEMES and parts.port != 0
    except ValueError:
        known, parts = False, urlsplit("")
    if not known:
        raise ValueError(
            f"{name}: not a URL of Postgres; it reads postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        )
    if not parts.path.strip("/"):
        raise ValueError(f"{name}: the URL names no database; end it with /DATABASE")
    return url


def _milliseconds(variable: str, default: float) -> float:
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        value = float(text) / 1000
    except ValueError:
        value = 0.0
    if not value > 0:
        raise ValueError(f"{variable} must be a number of milliseconds above 0, not {text!r}")
    return value
