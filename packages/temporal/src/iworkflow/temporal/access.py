"""Whether the server still serves this worker: the namespace may go, the access be taken away.

Temporal's own worker asks on for ever, whatever it is answered. A server that is away is waited
for; one that is there and refuses, time after time, breaks the worker.
"""

from __future__ import annotations

import asyncio
from typing import cast

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from iworkflow.temporal import errors

PROBE_SECONDS = 5.0
_REFUSALS = 3
"""How many in a row are final: while a server starts, it may not know its namespaces yet."""
_FINAL = (
    RPCStatusCode.NOT_FOUND,
    RPCStatusCode.PERMISSION_DENIED,
    RPCStatusCode.UNAUTHENTICATED,
)
_PROBE = "iwf.probe"


async def check(client: Client) -> None:
    """See that the namespace can be used.

    Raises:
        ConnectionError: the server does not answer, or refuses.
    """
    try:
        await client.get_workflow_handle(_PROBE).describe()
    except RPCError as error:
        if not errors.is_missing(error) or "amespace" in error.message:
            address = client.service_client.config.target_host
            raise errors.unreachable(address, client.namespace, error) from error


async def refused(client: Client) -> Exception:
    """Wait until the server refuses the namespace for good, and return the error that says so."""
    refusals = 0
    while True:
        await asyncio.sleep(PROBE_SECONDS)
        try:
            await check(client)
        except ConnectionError as error:
            refusals = refusals + 1 if _is_final(error) else 0
            if refusals == _REFUSALS:
                return error
        else:
            refusals = 0


def _is_final(error: ConnectionError) -> bool:
    return cast("RPCError", error.__cause__).status in _FINAL
