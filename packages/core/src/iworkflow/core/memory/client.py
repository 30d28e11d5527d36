"""The memory engine as a client sees it."""

from __future__ import annotations

import builtins
from typing import cast

from iworkflow.core.client import Client
from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD, loads
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.memory.host import outcome_of
from iworkflow.core.memory.store import MemoryStore, default_store
from iworkflow.core.port import (
    FlowDescription,
    FlowFilter,
    Message,
    Outcome,
    StartReply,
    StartRequest,
)


class MemoryClientEngine:
    """A `port.ClientEngine` over a store of this process."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def start(self, request: StartRequest) -> StartReply:
        """Start the run, unless its id is taken."""
        return self._store.start(request)

    async def signal(self, workflow_id: str, message: Message) -> None:
        """Send a message."""
        self._store.deliver(workflow_id, message)

    async def signal_with_start(self, request: StartRequest, message: Message) -> StartReply:
        """Start the run with the message, or send it to the running one."""
        return self._store.start(request, message=message)

    async def result(self, workflow_id: str) -> Outcome:
        """Wait for the outcome; on a virtual clock, time passes meanwhile."""
        with self._store.clock.waiting():
            return await outcome_of(self._store, workflow_id)

    async def query(self, workflow_id: str, key: str) -> JsonValue:
        """Return the last value of the key, or None."""
        value = self._store.find(workflow_id).state.get(key)
        return None if value is None else cast("JsonValue", loads(value))

    async def describe(self, workflow_id: str) -> FlowDescription:
        """Describe the run."""
        return self._store.find(workflow_id).describe()

    async def terminate(self, workflow_id: str, reason: str) -> None:
        """End the run now."""
        self._store.terminate(self._store.find(workflow_id), reason)

    async def close(self) -> None:
        """Close nothing: the store is the process's."""

    async def list(self, filter: FlowFilter) -> builtins.list[FlowDescription]:
        """Return the runs that fit, newest first."""
        return self._store.search(filter)


class MemoryClient(Client):
    """A client of the memory engine.

    Args:
        store: the store that it shares with its runtimes. Default: the one of this process.
        max_payload: how many bytes a value may have, encoded.
    """

    def __init__(
        self, store: MemoryStore | None = None, *, max_payload: int = DEFAULT_MAX_PAYLOAD
    ) -> None:
        self.store = default_store() if store is None else store
        super().__init__(MemoryClientEngine(self.store), max_payload=max_payload)
