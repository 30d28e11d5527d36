"""The DBOS engine for iworkflow flows.

Flows are kept in Postgres: `DBOS_SYSTEM_DATABASE_URL` names it, else the embedded one of the extra
`embedded` is used. Importing this connects to nothing.
"""

from __future__ import annotations

from iworkflow.core.lockstep import require_core

require_core("iworkflow-dbos")

from iworkflow.dbos.discovery import engine  # noqa: E402 - the check comes first
from iworkflow.dbos.runtime import DbosClient, DbosRuntime  # noqa: E402

__all__ = ["DbosClient", "DbosRuntime", "engine"]
