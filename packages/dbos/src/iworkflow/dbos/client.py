"""The client: what the port asks of an engine, on DBOS's public client and our own reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from dbos import DBOSClient, DBOSPortableJSONSerializer, EnqueueOptions
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import (
    FlowDescription,
    FlowFilter,
    Message,
    Outcome,
    StartReply,
    StartRequest,
    Status,
)
from iworkflow.dbos import errors, runs, schema
from iworkflow.dbos.database import Database
from iworkflow.dbos.notifier import ended, queued
from iworkflow.dbos.sending import Keys
from iworkflow.dbos.settings import Location, Polling, locate
from iworkflow.dbos.wakeups import Wakeups


class DbosClientEngine:
    """A `port.ClientEngine` on one database. It belongs to one event loop."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @classmethod
    async def connect(cls, url: str | None) -> DbosClientEngine:
        """Connect; the first client of a new database makes its tables.

        Args:
            url: the database; None: `DBOS_SYSTEM_DATABASE_URL`, else the embedded Postgres.

        Raises:
            ConnectionError: the server cannot be reached or refuses the login.
        """
        location = await asyncio.to_thread(locate, url)
        await schema.ensure(location)
        link = Link(location, Polling.from_environment())
        await link.open()
        return cls(link)

    async def start(self, request: StartRequest) -> StartReply:
        """Start the run, unless its id is taken."""
        return await self._link.start(request, origin=None)

    async def signal(self, workflow_id: str, message: Message) -> None:
        """Send a message."""
        link = self._link
        await link.expect_running(workflow_id)
        await link.send(workflow_id, message)

    async def signal_with_start(self, request: StartRequest, message: Message) -> StartReply:
        """Start the run with the message, or send it to the running one.

        The start comes first, then the message: a client that dies in between leaves a run
        without the message, and the same call made again sends it.
        """
        link = self._link
        reply = await link.start(request, origin=None)
        same = (reply.app, reply.flow) == (request.app, request.flow)
        if same and reply.status is Status.RUNNING:
            await link.send(request.id, message)
        return reply

    async def result(self, workflow_id: str) -> Outcome:
        """Wait for the outcome."""
        return await self._link.result(workflow_id)

    async def query(self, workflow_id: str, key: str) -> JsonValue:
        """Read the last value of the key."""
        link = self._link
        there, value = await runs.read_state(link.database, workflow_id, key)
        if not there:
            raise errors.not_found(workflow_id)
        return value

    async def describe(self, workflow_id: str) -> FlowDescription:
        """Describe the run."""
        run = await self._link.expect(workflow_id)
        return run.description

    async def list(self, filter: FlowFilter) -> list[FlowDescription]:
        """List the runs that fit, newest first."""
        link = self._link
        return [run.description for run in await runs.read_list(link.database, filter)]

    async def terminate(self, workflow_id: str, reason: str) -> None:
        """End the run now."""
        link = self._link
        run = await link.expect(workflow_id)
        if reason and run.status is Status.RUNNING:
            await link.give_reason(workflow_id, reason)
        await link.end(workflow_id)

    async def close(self) -> None:
        """Close the connections."""
        await self._link.close()


class Link:
    """The ways to one database that clients and workers share."""

    def __init__(self, location: Location, polling: Polling) -> None:
        self.location = location
        self.database = Database(location)
        self.wakeups = Wakeups(self.database, interval=polling.results)
        self._keys = Keys()
        self._dbos: DBOSClient | None = None

    async def open(self) -> None:
        """Connect.

        Raises:
            ConnectionError: the server cannot be reached or refuses the login.
        """
        await self.database.open()
        try:
            self._dbos = await asyncio.to_thread(_dbos_client, self.location.url)
        except Exception as error:
            await self.database.close()
            raise errors.unreachable(self.location, error) from error

    async def close(self) -> None:
        """Close the connections."""
        await self.wakeups.close()
        await self.database.close()
        if self._dbos is not None:
            await asyncio.to_thread(self._dbos.destroy)

    async def start(self, request: StartRequest, *, origin: str | None) -> StartReply:
        """Start the run durably, unless its id is taken.

        Args:
            request: the run.
            origin: who starts it; the same start made again counts as the one that created it.
        """
        try:
            await self.database.retried(lambda: self._enqueue(request, origin))
        except Exception as error:
            if not errors.is_taken(error):
                raise
            return await self._taken(request, origin)
        self.wakeups.announce(queued(request.app))
        return StartReply(True, request.app, request.flow, Status.RUNNING)

    async def send(self, workflow_id: str, message: Message, *, via: Send | None = None) -> None:
        """Send a message; one id reaches a run once, and the order of sending holds.

        Args:
            workflow_id: the run.
            message: what to send.
            via: what sends it, given destination, value, topic and key; the client by default.

        Raises:
            FlowError: the run is missing.
        """
        key = self._keys.fresh() if message.id is None else message.id
        await self._keys.in_order(workflow_id, key)
        try:
            send = via or self._send
            await self.database.retried(
                lambda: send(workflow_id, message.value, message.topic, key)
            )
        except Exception as error:
            if errors.is_missing(error):
                raise errors.not_found(workflow_id) from None
            raise
        self._keys.sent(workflow_id, key)

    async def was_sent(self, workflow_id: str, message: Message) -> bool:
        """Tell whether a message with the id was sent to the run already."""
        key = f"{message.id}::{workflow_id}"
        return await self.database.row(_SENT, key) is not None

    async def result(self, workflow_id: str) -> Outcome:
        """Wait for the outcome of a run; one past its deadline is ended on the way."""
        with self.wakeups.end_of(workflow_id) as woken:
            while True:
                woken.clear()
                run = await runs.read_outcome(self.database, workflow_id)
                if run is None:
                    raise errors.not_found(workflow_id)
                if run.late:
                    await self.end(workflow_id)
                if run.outcome is not None:
                    return run.outcome
                await self._wait(woken, run)

    async def expect(self, workflow_id: str) -> runs.Run:
        """Read a run, ending one past its deadline on the way.

        Raises:
            FlowError: the run is missing.
        """
        run = await runs.read(self.database, workflow_id)
        if run is None:
            raise errors.not_found(workflow_id)
        if run.late:
            await self.end(workflow_id)
        return run

    async def expect_running(self, workflow_id: str) -> None:
        """Check that a run is there and not finished.

        Raises:
            FlowError: it is missing or finished.
        """
        run = await self.expect(workflow_id)
        if run.status is not Status.RUNNING:
            raise errors.finished(workflow_id)

    async def give_reason(self, workflow_id: str, reason: str) -> None:
        """Note why the run is about to be ended."""
        noted = {runs.REASON: reason.replace("\0", "\ufffd")}  # Postgres takes no NUL
        await self.database.retried(
            lambda: self._client.update_workflow_attributes_async(workflow_id, noted, merge=True)
        )

    async def end(self, workflow_id: str) -> None:
        """Cancel a run in the engine; a finished one stays as it is.

        DBOS would move the end of a cancelled one to now, and so past its deadline.
        """
        run = await runs.read(self.database, workflow_id)
        if run is not None and not run.over:
            await self.database.retried(lambda: self._client.cancel_workflow_async(workflow_id))
        self.wakeups.announce(ended(workflow_id))

    async def _wait(self, woken: asyncio.Event, run: runs.Run) -> None:
        left = None if run.deadline is None else max(0.0, run.deadline - time.time()) + 0.001
        try:
            async with asyncio.timeout(left):
                await woken.wait()
        except TimeoutError:
            pass

    async def _taken(self, request: StartRequest, origin: str | None) -> StartReply:
        run = await runs.read(self.database, request.id)
        if run is None:
            raise errors.not_found(request.id)
        if run.late:
            await self.end(request.id)
        there = run.description
        created = origin is not None and run.origin == origin
        return StartReply(created, there.app, there.flow, there.status)

    async def _enqueue(self, request: StartRequest, origin: str | None) -> None:
        await self._client.enqueue_async(_options(request, origin), *request.args)

    async def _send(self, workflow_id: str, value: JsonValue, topic: str, key: str) -> None:
        await self._client.send_async(workflow_id, value, topic, key)

    @property
    def _client(self) -> DBOSClient:
        assert self._dbos is not None
        return self._dbos


_SENT = "SELECT 1 FROM dbos.notifications WHERE message_uuid = $1"

Send = Callable[[str, JsonValue, str, str], Any]


def _dbos_client(url: str) -> DBOSClient:
    return DBOSClient(
        system_database_url=url,
        serializer=DBOSPortableJSONSerializer(),
        system_database_pool_size=5,
    )


def _options(request: StartRequest, origin: str | None) -> EnqueueOptions:
    attributes: dict[str, Any] = {}
    if request.timeout is not None:
        attributes[runs.DEADLINE] = int((time.time() + request.timeout) * 1000)
    if request.parent_id is not None:
        attributes[runs.PARENT] = request.parent_id
    if origin is not None:
        attributes[runs.ORIGIN] = origin
    return {
        "workflow_name": request.flow,
        "queue_name": request.app,
        "application_name": request.app,
        "workflow_id": request.id,
        "workflow_id_reuse_policy": "reject",
        "priority": request.priority,
        "attributes": attributes,
    }
