"""What a user makes: the runtime and the client."""

from __future__ import annotations

from temporalio.client import Client as RawClient
from temporalio.service import TLSConfig

from iworkflow.core.client import Client
from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD
from iworkflow.core.options import Duration, seconds
from iworkflow.core.port import ClientEngine
from iworkflow.core.runtime import Runtime
from iworkflow.temporal.client import TemporalClientEngine
from iworkflow.temporal.settings import (
    MAX_CACHED_WORKFLOWS,
    SILENT_AFTER,
    Settings,
    Tuning,
    check_payload,
)
from iworkflow.temporal.worker import TemporalWorker


class TemporalRuntime(Runtime):
    """A worker of one app on Temporal.

    Flows run in Temporal's threads, in its sandbox; async steps on the event loop that calls
    `start`.

    Args:
        address: host and port of the server. This and the next three default to Temporal's own
            configuration: `TEMPORAL_ADDRESS` and so on, or the profile in its file.
        namespace: the namespace.
        api_key: the API key; it turns TLS on.
        tls: whether, or how, to use TLS.
        profile: which profile of Temporal's configuration.
        client: a client of Temporal's to use instead of all these.
        silent_after: how long the worker may be silent until others of its app take over.
        max_cached_workflows: how many runs are kept in memory; one that is not is replayed
            whenever it goes on.
        max_payload: how many bytes a value may have, encoded.

    Raises:
        ValueError: an option is not valid.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        namespace: str | None = None,
        api_key: str | None = None,
        tls: TLSConfig | bool | None = None,
        profile: str | None = None,
        client: RawClient | None = None,
        silent_after: Duration = SILENT_AFTER,
        max_cached_workflows: int = MAX_CACHED_WORKFLOWS,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
    ) -> None:
        if type(max_cached_workflows) is not int or max_cached_workflows < 0:
            raise ValueError(
                f"max_cached_workflows must be 0 or a number above, not {max_cached_workflows!r}"
            )
        settings = Settings(
            address=address,
            namespace=namespace,
            api_key=api_key,
            tls=tls,
            profile=profile,
            client=client,
        )
        silence = seconds("silent_after", silent_after)
        tuning = Tuning(silence, max_cached_workflows, max_payload)
        super().__init__(TemporalWorker(settings, tuning))


class TemporalClient(Client):
    """A client of flows on Temporal.

    Args:
        address: host and port of the server; this and the others are as for `TemporalRuntime`.
        namespace: the namespace.
        api_key: the API key.
        tls: whether, or how, to use TLS.
        profile: which profile of Temporal's configuration.
        client: a client of Temporal's to use instead of all these.
        max_payload: how many bytes a value may have, encoded.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        namespace: str | None = None,
        api_key: str | None = None,
        tls: TLSConfig | bool | None = None,
        profile: str | None = None,
        client: RawClient | None = None,
        max_payload: int = DEFAULT_MAX_PAYLOAD,
    ) -> None:
        check_payload(max_payload)
        settings = Settings(
            address=address,
            namespace=namespace,
            api_key=api_key,
            tls=tls,
            profile=profile,
            client=client,
        )

        async def open_engine() -> ClientEngine:
            return await TemporalClientEngine.connect(settings)

        super().__init__(open_engine, max_payload=max_payload)
