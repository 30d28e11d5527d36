"""The engine as discovery finds it under the name `dbos`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from iworkflow.dbos import embedded, schema
from iworkflow.dbos.runtime import DbosClient, DbosRuntime
from iworkflow.dbos.settings import URL_VARIABLE, Location


class DbosEngine:
    """See `iworkflow.core.engines`."""

    name = "dbos"

    def client(self, **settings: Any) -> DbosClient:
        """Build a client; the settings are those of `DbosClient`."""
        return DbosClient(**settings)

    def runtime(self, **settings: Any) -> DbosRuntime:
        """Build a runtime; the settings are those of `DbosRuntime`."""
        return DbosRuntime(**settings)

    @asynccontextmanager
    async def dev(self) -> AsyncGenerator[str]:
        """Run the embedded Postgres inside an `async with`.

        Workers and clients without a URL find it by themselves.
        """
        directory = embedded.home() / "postgres"
        url = await asyncio.to_thread(embedded.start, directory)
        try:
            await schema.ensure(Location(url, "embedded"))
            yield f'Postgres: {directory}\nexport {URL_VARIABLE}="{url}"'
        finally:
            await asyncio.to_thread(embedded.stop, directory)


engine = DbosEngine()
