"""DBOS's public client, on connections that also serve a transaction of ours.

A start and its message are committed as one: a worker that takes the run finds the message, and
whatever is cut in between, both are there or neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import sqlalchemy
import sqlalchemy.event

from dbos import DBOSClient, DBOSPortableJSONSerializer, EnqueueOptions, SendMessage
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.dbos.settings import Location

_POOL_SIZE = 5
_CONNECT_TIMEOUT = 10
_END_IDLE = "SET idle_in_transaction_session_timeout = '60s'"
"""A frozen process must not hold its locks for ever."""


class Gateway:
    """What goes through DBOS's own client. Making one connects, and blocks."""

    def __init__(self, location: Location) -> None:
        self._destroyed = False
        self._engine = _engine(location)
        sqlalchemy.event.listen(self._engine, "checkin", self._returned)
        self.client = DBOSClient(
            system_database_engine=self._engine, serializer=DBOSPortableJSONSerializer()
        )

    def destroy(self) -> None:
        """Close the connections; one in use is closed when it is returned. It blocks."""
        self._destroyed = True
        self.client.destroy()
        self._engine.dispose()

    async def enqueue(self, options: EnqueueOptions, args: Sequence[JsonValue]) -> None:
        """Start a run."""
        await self.client.enqueue_async(options, *args)

    async def enqueue_with(
        self, options: EnqueueOptions, args: Sequence[JsonValue], send: SendMessage
    ) -> None:
        """Start a run with a message, in one transaction."""
        await asyncio.to_thread(self._enqueue_with, options, args, send)

    async def send(self, workflow_id: str, value: JsonValue, topic: str, key: str) -> None:
        """Send a message."""
        await self.client.send_async(workflow_id, value, topic, key)

    def _enqueue_with(
        self, options: EnqueueOptions, args: Sequence[JsonValue], send: SendMessage
    ) -> None:
        with self._engine.begin() as connection:
            self.client.enqueue_in_transaction(connection, options, *args)
            self.client.send_bulk_in_transaction(connection, [send])

    def _returned(self, _connection: Any, record: Any) -> None:
        if self._destroyed:
            record.invalidate()


async def connect(location: Location) -> Gateway:
    """Make a gateway; cancelled, it is destroyed by the thread that makes it."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="iworkflow-connect")
    making = executor.submit(Gateway, location)
    executor.shutdown(wait=False)
    try:
        return await asyncio.wrap_future(making)
    except BaseException:
        making.add_done_callback(_destroy)
        raise


def _destroy(made: Future[Gateway]) -> None:
    if not made.cancelled() and made.exception() is None:
        made.result().destroy()


def _engine(location: Location) -> sqlalchemy.Engine:
    def connection() -> psycopg.Connection[Any]:
        made = psycopg.connect(
            location.url,
            connect_timeout=_CONNECT_TIMEOUT,
            application_name="dbos_transact_client",
            autocommit=True,
        )
        made.execute(_END_IDLE)
        made.autocommit = False
        return made

    return sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=connection,
        pool_size=_POOL_SIZE,
        max_overflow=0,
        pool_pre_ping=True,
    )
