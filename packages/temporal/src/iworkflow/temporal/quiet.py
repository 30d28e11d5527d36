"""What Temporal logs about things that are in order here.

A step that fails is an outcome, which core has logged with the step's own traceback; Temporal
warns of it once more with ours. A flow that this worker does not know is left for another one, one
whose code does not fit is tried again, and we say so ourselves. How long a stop waits is ours to
decide, not what Temporal then says.
"""

from __future__ import annotations

import logging

from iworkflow.core.flow.placement import Misplaced
from iworkflow.temporal.errors import FailedError, ParkedError

_NAMES = (
    "temporalio.activity",
    "temporalio.worker._worker",
    "temporalio.worker._workflow_instance",
)
_SHUTDOWN = "Beginning worker shutdown"


class _Expected(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        expected = isinstance(error, FailedError | ParkedError | Misplaced)
        return not expected and not record.getMessage().startswith(_SHUTDOWN)


_filter = _Expected()


def hush() -> None:
    """Keep Temporal from logging what is expected. A second call does nothing."""
    for name in _NAMES:
        logging.getLogger(name).addFilter(_filter)
