"""Temporal under test: worker processes over a dev server for each arena.

`temporal-uncached` keeps no run in memory: every step replays its run from the first event.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.operatorservice.v1 import DeleteNamespaceRequest
from temporalio.client import Client as RawClient

from iworkflow.core import Client
from iworkflow.core.engines import engine
from iworkflow.core.steps import AttemptState
from iworkflow_lab.capabilities import Capability
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.engines.processes import ProcessArena
from iworkflow_lab.processes import Process
from iworkflow_lab.temporal_server import free_port

ADDRESS = "TEMPORAL_ADDRESS"
"""Temporal's own variable; the adapter follows it."""

_STEPS = (EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED)
_OTHERS = (
    EventType.EVENT_TYPE_TIMER_STARTED,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED,
    EventType.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED,
)


class _Store:
    """The histories that the server keeps."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def steps(self, run: str) -> int:
        """Return how many steps of the run have a recorded outcome."""
        return await self._count(run, _STEPS)

    async def operations(self, run: str) -> int:
        """Return how many operations of any kind the run has recorded."""
        return await self._count(run, _STEPS + _OTHERS)

    async def _count(self, run: str, kinds: tuple[Any, ...]) -> int:
        client = await RawClient.connect(self._address)
        history = await client.get_workflow_handle(run).fetch_history()
        return sum(event.event_type in kinds for event in history.events)

    async def attempts(self, run: str) -> list[AttemptState]:
        """Return how far the steps of the run are that have failed or beaten."""
        client = await RawClient.connect(self._address)
        described = await client.get_workflow_handle(run).describe()
        pending = described.raw_description.pending_activities
        beats = [activity.heartbeat_details.payloads for activity in pending]
        states = [AttemptState.from_json(json.loads(beat[0].data)) for beat in beats if beat]
        return [state for state in states if state.made or state.heartbeat is not None]


class Server:
    """The development server of an arena, with its files in the arena's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: Process | None = None

    @property
    def address(self) -> str:
        """Where it is, also while it is stopped."""
        return f"localhost:{self._port}"

    async def start(self) -> None:
        """Start it, or start it again."""
        self._process = await Process.start(
            ["iworkflow_lab.temporal_server", str(self._port), str(self._folder / "temporal.db")],
            output=self._folder / "server.log",
        )

    async def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            process, self._process = self._process, None
            await process.stop()


class TemporalArena(ProcessArena):
    """A server of its own, and worker processes on it."""

    def __init__(
        self, folder: Path, address: str, client: Client, server: Server, cached: int | None
    ) -> None:
        self._address = address
        self._server = server
        super().__init__(
            folder,
            client,
            _Store(address),
            engine="temporal",
            environment={ADDRESS: address},
            settings={} if cached is None else {"max_cached_workflows": cached},
        )

    def another_client(self, *, max_payload: int) -> Client:
        """Return a client with a limit of its own."""
        return engine("temporal").client(address=self._address, max_payload=max_payload)

    async def ruin(self) -> None:
        """Delete the namespace: a server that is merely away is waited for."""
        client = await RawClient.connect(self._address)
        request = DeleteNamespaceRequest(namespace=client.namespace)
        await client.operator_service.delete_namespace(request)

    async def restart_server(self) -> None:
        """Stop the server and start it again, on its port and its file."""
        await self._server.stop()
        await self._server.start()


class TemporalLab:
    """Temporal's development server.

    Args:
        name: the name in the matrix.
        cached: how many runs a worker keeps in memory; None for its own default.
    """

    declared: Mapping[Capability, str] = {
        Capability.QUERY_WITHOUT_WORKER: (
            "Temporal keeps no state of a run: a worker of the app replays the run for the answer"
        )
    }

    def __init__(self, name: str, cached: int | None = None) -> None:
        self.name = name
        self._cached = cached

    @contextmanager
    def server(self) -> Generator[None]:
        """Each arena has its own: an id names one run for as long as a server keeps it."""
        yield

    @asynccontextmanager
    async def arena(self, folder: Path, *, alone: bool = False) -> AsyncGenerator[Arena]:
        """Give a fresh server."""
        server = Server(folder)
        await server.start()
        try:
            client = engine("temporal").client(address=server.address)
            arena = TemporalArena(folder, server.address, client, server, self._cached)
            try:
                yield arena
            finally:
                await arena.close()
        finally:
            await server.stop()
