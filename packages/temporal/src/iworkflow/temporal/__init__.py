"""The Temporal engine for iworkflow flows.

Flows run as workflows on a Temporal server: `TEMPORAL_ADDRESS` and Temporal's other settings name
it. Importing this connects to nothing.
"""

from __future__ import annotations

from iworkflow.core.lockstep import require_core

require_core("iworkflow-temporal")

from iworkflow.temporal.versions import require_temporalio  # noqa: E402 - the checks come first

require_temporalio()

from iworkflow.temporal.discovery import engine  # noqa: E402
from iworkflow.temporal.runtime import TemporalClient, TemporalRuntime  # noqa: E402

__all__ = ["TemporalClient", "TemporalRuntime", "engine"]
