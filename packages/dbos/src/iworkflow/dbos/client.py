"""The client: what the port asks of an engine, on DBOS's public client and our own reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from dbos import EnqueueOptions, SendMessage
from iworkflow.core.errors import FlowError
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
from iworkflow.dbos.gateway import Gateway
from iworkflow.dbos.gateway import connect as open_gateway
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
        return await self._link.start(request, origin=_origin())

    async def signal(self, workflow_id: str, message: Message) -> None:
        """Send a message."""
        link = self._link
        await link.expect_running(workflow_id)
        await link.send(workflow_id, message)

    async def signal_with_start(self, request: StartRequest, message: Message) -> StartReply:
        """Start the run with the message, or send it to the running one."""
        link = self._link
        reply = await link.start_with(request, message, origin=_origin())
        same = (reply.app, reply.flow) == (request.app, request.flow)
        if reply.created or not same or reply.status is not Status.RUNNING:
            return reply
        try:
            await link.send(request.id, message)
        except FlowError:  # it has ended since
            return await link.reply(request)
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
        self._gateway: Gateway | None = None

    async def open(self) -> None:
        """Connect; a failure or a cancel leaves nothing open.

        Raises:
            ConnectionError: the server cannot be reached or refuses the login.
        """
        await self.database.open()
        try:
            self._gateway = await open_gateway(self.location)
        except BaseException as error:
            await self.database.close()
            if isinstance(error, Exception):
                raise errors.unreachable(self.location, error) from error
            raise

    async def close(self) -> None:
        """Close the connections."""
        await self.wakeups.close()
        await self.database.close()
        if self._gateway is not None:
            await asyncio.to_thread(self._gateway.destroy)

    async def start(self, request: StartRequest, *, origin: str) -> StartReply:
        """Start the run durably, unless its id is taken.

        Args:
            request: the run.
            origin: who starts it; the same start made again counts as the one that created it.
        """
        return await self._start(
            request, origin, lambda: self._open.enqueue(_options(request, origin), request.args)
        )

    async def start_with(
        self, request: StartRequest, message: Message, *, origin: str
    ) -> StartReply:
        """Start the run with a message, both or neither, unless its id is taken."""
        key = self._key(message)
        send = SendMessage(request.id, message.value, message.topic, key)
        await self._keys.in_order(request.id, key)
        reply = await self._start(
            request,
            origin,
            lambda: self._open.enqueue_with(_options(request, origin), request.args, send),
        )
        if reply.created:
            self._keys.sent(request.id, key)
        return reply

    async def reply(self, request: StartRequest, *, origin: str | None = None) -> StartReply:
        """Tell whose run bears the id of a start, and whether the origin is its own.

        Raises:
            FlowError: there is none.
        """
        run = await self.expect(request.id)
        there = run.description
        created = origin is not None and run.origin == origin
        return StartReply(created, there.app, there.flow, there.status)

    async def send(self, workflow_id: str, message: Message, *, via: Send | None = None) -> None:
        """Send a message; one id reaches a run once, and the order of sending holds.

        A run may end while the message is on its way: then it counts if the run took it.

        Args:
            workflow_id: the run.
            message: what to send.
            via: what sends it, given destination, value, topic and key; the client by default.

        Raises:
            FlowError: the run is missing, or has ended without taking the message.
        """
        key = self._key(message)
        await self._keys.in_order(workflow_id, key)
        try:
            send = via or self._open.send
            await self.database.retried(
                lambda: send(workflow_id, message.value, message.topic, key)
            )
        except Exception as error:
            if errors.is_missing(error):
                raise errors.not_found(workflow_id) from None
            raise
        self._keys.sent(workflow_id, key)
        if not await runs.counts(self.database, workflow_id, _uuid(key, workflow_id)):
            raise errors.finished(workflow_id)

    async def was_sent(self, workflow_id: str, message: Message) -> bool:
        """Tell whether a message with the id was sent to the run already."""
        uuid = _uuid(str(message.id), workflow_id)
        return await self.database.row(_SENT, uuid) is not None

    async def result(self, workflow_id: str) -> Outcome:
        """Wait for the outcome of a run; one past its deadline is ended on the way."""
        with self.wakeups.end_of(workflow_id) as woken:
            while True:
                woken.clear()
                run = await self._read(runs.read_outcome, workflow_id)
                if run.outcome is not None:
                    return run.outcome
                await self._wait(woken, run)

    async def expect(self, workflow_id: str) -> runs.Run:
        """Read a run, ending one past its deadline on the way.

        Raises:
            FlowError: the run is missing.
        """
        return await self._read(runs.read, workflow_id)

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
        client = self._open.client
        noted = {runs.REASON: reason.replace("\0", "\ufffd")}  # Postgres takes no NUL
        await self.database.retried(
            lambda: client.update_workflow_attributes_async(workflow_id, noted, merge=True)
        )

    async def end(self, workflow_id: str) -> None:
        """Cancel a run in the engine; a finished one stays as it is.

        DBOS would move the end of a cancelled one to now, and so past its deadline.
        """
        client = self._open.client
        run = await runs.read(self.database, workflow_id)
        if run is not None and not run.over:
            await self.database.retried(lambda: client.cancel_workflow_async(workflow_id))
        self.wakeups.announce(ended(workflow_id))

    async def _wait(self, woken: asyncio.Event, run: runs.Run) -> None:
        left = None if run.deadline is None else max(0.0, run.deadline - time.time()) + 0.001
        try:
            async with asyncio.timeout(left):
                await woken.wait()
        except TimeoutError:
            pass

    async def _start(
        self, request: StartRequest, origin: str, enqueue: Callable[[], Awaitable[None]]
    ) -> StartReply:
        reply = StartReply(True, request.app, request.flow, Status.RUNNING)
        try:
            await self.database.retried(enqueue)
        except Exception as error:
            if not errors.is_taken(error):
                raise
            reply = await self.reply(request, origin=origin)
        if reply.created:
            self.wakeups.announce(queued(request.app))
        return reply

    async def _read(self, read: Read, workflow_id: str) -> runs.Run:
        """Read a run. One past its deadline is ended and read again: an outcome may come first."""
        run = await read(self.database, workflow_id)
        if run is not None and run.late:
            await self.end(workflow_id)
            run = await read(self.database, workflow_id)
        if run is None:
            raise errors.not_found(workflow_id)
        return run

    def _key(self, message: Message) -> str:
        return self._keys.fresh() if message.id is None else message.id

    @property
    def _open(self) -> Gateway:
        assert self._gateway is not None
        return self._gateway


_SENT = "SELECT 1 FROM dbos.notifications WHERE message_uuid = $1"

Send = Callable[[str, JsonValue, str, str], Any]
Read = Callable[[Database, str], Awaitable[runs.Run | None]]


def _origin() -> str:
    return uuid4().hex


def _uuid(key: str, workflow_id: str) -> str:
    """Name a message as DBOS does."""
    return f"{key}::{workflow_id}"


def _options(request: StartRequest, origin: str) -> EnqueueOptions:
    attributes: dict[str, Any] = {runs.ORIGIN: origin}
    if request.timeout is not None:
        attributes[runs.DEADLINE] = int((time.time() + request.timeout) * 1000)
    if request.parent_id is not None:
        attributes[runs.PARENT] = request.parent_id
    return {
        "workflow_name": request.flow,
        "queue_name": request.app,
        "application_name": request.app,
        "workflow_id": request.id,
        "workflow_id_reuse_policy": "reject",
        "priority": request.priority,
        "attributes": attributes,
    }
