"""What a user makes: the runtime and the client."""

from __future__ import annotations

from iworkflow.core.client import Client
from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD
from iworkflow.core.options import Duration, seconds
from iworkflow.core.port import ClientEngine
from iworkflow.core.runtime import Runtime
from iworkflow.dbos.client import DbosClientEngine
from iworkflow.dbos.worker import SILENT_AFTER, DbosWorker


class DbosRuntime(Runtime):
    """A worker of one app on DBOS. DBOS allows one at a time in a process.

    Flows and async steps run on the event loop that calls `start`.

    Args:
        url: the Postgres database. Default: `DBOS_SYSTEM_DATABASE_URL`; is that unset too, the
            embedded Postgres of the extra `embedded` in `$IWORKFLOW_HOME`.
        silent_after: how long the worker may be silent until others of its app take over.
        max_payload: how many bytes a value may have, encoded.

    Raises:
        ValueError: an option is not valid.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        silent_after: Duration = SILENT_AFTER,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
    ) -> None:
        silence = seconds("silent_after", silent_after)
        super().__init__(DbosWorker(url, silent_after=silence, max_payload=max_payload))


class DbosClient(Client):
    """A client of flows on DBOS.

    Args:
        url: the Postgres database; its default is that of `DbosRuntime`.
        max_payload: how many bytes a value may have, encoded.
    """

    def __init__(self, url: str | None = None, *, max_payload: int = DEFAULT_MAX_PAYLOAD) -> None:
        async def connect() -> ClientEngine:
            return await DbosClientEngine.connect(url)

        super().__init__(connect, max_payload=max_payload)
