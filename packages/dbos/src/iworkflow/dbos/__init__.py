"""The DBOS engine for iworkflow flows."""

from __future__ import annotations

from iworkflow.core.lockstep import require_core

require_core("iworkflow-dbos")
