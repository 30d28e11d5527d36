"""What a flow writes to the log."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iworkflow.core.flow.run import FlowRun


class FlowLog(logging.LoggerAdapter[logging.Logger]):
    """The log of one run: silent while an earlier dispatch is replayed."""

    def __init__(self, run: FlowRun) -> None:
        info = run.info
        facts = {"workflow_id": info.workflow_id, "flow": info.flow, "app": info.app}
        super().__init__(logging.getLogger(f"iworkflow.flow.{info.flow}"), facts)
        self._run = run

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802
        """Whether a record of this level is written now."""
        return not self._run.replaying and super().isEnabledFor(level)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the facts of the run to those that the call gives."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs
