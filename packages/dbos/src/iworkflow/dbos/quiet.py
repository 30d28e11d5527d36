"""What DBOS logs about things that are in order here.

A flow that fails is an outcome, and one whose run was stopped, ended or taken over is cancelled on
purpose; DBOS warns of the one with a stack trace and of the other with every task. A flow that
this worker does not know goes back to the queue, and we say so ourselves.
"""

from __future__ import annotations

import logging

_NAME = "dbos"
_EXPECTED = (
    "Asyncio task cancelled for workflow or step",
    "Exception encountered in asynchronous workflow",
)
_WITHIN = (
    "outcome was not recorded",
    "was cancelled during execution",
    "is no longer owned",
    "is not a registered workflow function",
)


class _Expected(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        expected = message.startswith(_EXPECTED) or any(text in message for text in _WITHIN)
        return not expected


_filter = _Expected()


def hush() -> None:
    """Keep DBOS from logging what is expected. A second call does nothing."""
    logging.getLogger(_NAME).addFilter(_filter)


def unhush() -> None:
    """Let DBOS log everything again."""
    logging.getLogger(_NAME).removeFilter(_filter)
