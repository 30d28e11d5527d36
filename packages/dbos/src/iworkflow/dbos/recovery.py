"""Handing on the runs of an executor, dead or stopping.

DBOS has this for the time an executor with the same id starts again, under a private name. There is
no fallback for it: without it runs would be lost with their worker, so a worker refuses to start.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, cast

from dbos import DBOS

_NAME = "_recover_pending_workflows"
_PARAMETERS = ("executor_ids",)


def check() -> None:
    """Check that DBOS can do it.

    Raises:
        RuntimeError: this version of dbos cannot, or not as we know it.
    """
    _function()


def hand_on(executor_id: str) -> int:
    """Put the runs of an executor back into their queue, and return how many. It blocks.

    A run that another executor has taken meanwhile is left alone, so a second call does no harm;
    whatever still runs for the executor can record nothing from here on.
    """
    return len(_function()([executor_id]))


def _function() -> Callable[[list[str]], list[Any]]:
    found: Any = getattr(DBOS, _NAME, None)
    if found is None or tuple(inspect.signature(found).parameters) != _PARAMETERS:
        raise RuntimeError(
            f"dbos {version('dbos')} has no DBOS.{_NAME}({', '.join(_PARAMETERS)}), which hands on "
            "the runs of a dead worker; run \"pip install 'dbos>=3.4,<3.5'\""
        )
    return cast("Callable[[list[str]], list[Any]]", found)
