"""What a command reports in one paragraph instead of a traceback."""

from __future__ import annotations

from iworkflow.core.engines import Engine, engine

EXPECTED = (OSError, RuntimeError, ValueError, ImportError)
"""What an engine raises about its settings, its parts and its server."""

INTERRUPTED = 130


class Problem(Exception):
    """The command cannot do what it was asked to; the text names the remedy."""


def pick_engine(name: str | None) -> Engine:
    """Find the engine that the command is for.

    Raises:
        Problem: there is none, or it cannot be loaded.
    """
    try:
        return engine(name)
    except (ValueError, RuntimeError) as error:
        raise Problem(str(error)) from error
