"""Where the server is and how a worker works: arguments first, then Temporal's own settings.

Temporal's settings are its environment variables (`TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`,
`TEMPORAL_API_KEY`, `TEMPORAL_TLS_...`, `TEMPORAL_PROFILE`) and its configuration file.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, cast

from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.service import TLSConfig

from iworkflow.core.checks import check_limit
from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD
from iworkflow.temporal import access, errors, exiting
from iworkflow.temporal.payloads import JsonPayloads

logger = logging.getLogger("iworkflow.temporal")

ADDRESS = "localhost:7233"
ADDRESS_VARIABLE = "TEMPORAL_ADDRESS"
NAMESPACE = "default"
SILENT_AFTER = 10.0
MAX_CACHED_WORKFLOWS = 1000
MOST_PAYLOAD = 4_000_000


def check_payload(limit: int) -> None:
    """Check a limit of values against that of Temporal's messages.

    Raises:
        ValueError: it is not a number above 0, or more than a message can carry.
    """
    check_limit("max_payload", limit)
    if limit > MOST_PAYLOAD:
        raise ValueError(
            f"max_payload {limit} is more than a message of Temporal's carries; "
            f"at most {MOST_PAYLOAD}, on a server that is configured for it"
        )


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a worker works."""

    silent_after: float = SILENT_AFTER
    max_cached_workflows: int = MAX_CACHED_WORKFLOWS
    max_payload: int = DEFAULT_MAX_PAYLOAD

    def __post_init__(self) -> None:
        check_payload(self.max_payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the server is; None leaves a setting to Temporal's own configuration."""

    address: str | None = None
    namespace: str | None = None
    api_key: str | None = None
    tls: TLSConfig | bool | None = None
    profile: str | None = None
    client: Client | None = None

    def __post_init__(self) -> None:
        if self.client is None:
            return
        for name in ("address", "namespace", "api_key", "tls", "profile"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} and client are given; the client has a {name} already")


async def connect(settings: Settings) -> Client:
    """Connect and see that the namespace can be used.

    Raises:
        ConnectionError: the server cannot be reached, or refuses.
        ValueError: Temporal's own configuration is not valid.
    """
    exiting.await_core()
    client = await _connected(settings)
    await access.check(client)
    address = client.service_client.config.target_host
    logger.info("using Temporal at %s, namespace %r", address, client.namespace)
    return client


async def _connected(settings: Settings) -> Client:
    if settings.client is not None:
        return _speaking_json(settings.client)
    config = _config(settings)
    try:
        return await Client.connect(
            **config, data_converter=DataConverter(payload_converter_class=JsonPayloads)
        )
    except RuntimeError as error:
        address, namespace = config["target_host"], config["namespace"]
        raise errors.unreachable(address, namespace, error) from error


def _config(settings: Settings) -> dict[str, Any]:
    try:
        config = cast(
            "dict[str, Any]", ClientConfig.load_client_connect_config(profile=settings.profile)
        )
    except (RuntimeError, OSError) as error:
        raise ValueError(f"Temporal's configuration cannot be read: {error}") from error
    given = {
        "target_host": settings.address,
        "namespace": settings.namespace,
        "api_key": settings.api_key,
        "tls": settings.tls,
    }
    defaults = {"target_host": ADDRESS, "namespace": NAMESPACE}
    return defaults | config | {name: value for name, value in given.items() if value is not None}


def _speaking_json(client: Client) -> Client:
    """Return a client on the same connection with our payloads; codecs of the user's stay."""
    config = client.config()
    config["data_converter"] = replace(
        config["data_converter"], payload_converter_class=JsonPayloads
    )
    return Client(**config)
