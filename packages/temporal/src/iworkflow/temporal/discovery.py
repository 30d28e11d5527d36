"""The engine as discovery finds it under the name `temporal`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from iworkflow.temporal import dev
from iworkflow.temporal.runtime import TemporalClient, TemporalRuntime


class TemporalEngine:
    """See `iworkflow.core.engines`."""

    name = "temporal"

    def client(self, **settings: Any) -> TemporalClient:
        """Build a client; the settings are those of `TemporalClient`."""
        return TemporalClient(**settings)

    def runtime(self, **settings: Any) -> TemporalRuntime:
        """Build a runtime; the settings are those of `TemporalRuntime`."""
        return TemporalRuntime(**settings)

    @asynccontextmanager
    async def dev(self) -> AsyncGenerator[str]:
        """Run Temporal's development server inside an `async with`.

        Workers and clients without settings find it by themselves.
        """
        async with dev.server() as address:
            yield f'Temporal: {address}\nexport TEMPORAL_ADDRESS="{address}"'


engine = TemporalEngine()
