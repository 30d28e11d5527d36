"""Outside a flow: start runs, talk to them, wait for what they come to.

`Client` and `Handle` resolve targets, check options and ids, encode, decode and turn outcomes
into values or errors. What is left for an engine is `port.ClientEngine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, overload

from iworkflow.core.calls import (
    check_existing,
    check_options,
    check_reply,
    encode_args,
    message,
    start_request,
    taken,
    value_of,
)
from iworkflow.core.checks import check_limit
from iworkflow.core.codec import ANY, DEFAULT_MAX_PAYLOAD, decode, require_msgspec
from iworkflow.core.definition import Target
from iworkflow.core.naming import check_name
from iworkflow.core.options import Duration, StartOptions, seconds
from iworkflow.core.port import (
    ClientEngine,
    Existing,
    FlowDescription,
    FlowFilter,
    StartRequest,
    Status,
)

if TYPE_CHECKING:
    from typing import Self, Unpack

    from typing_extensions import TypeForm, TypeVar

    T = TypeVar("T")
    R = TypeVar("R", default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R")

Opener = Callable[[], Awaitable[ClientEngine]]
"""Connects to an engine."""

_START_OPTIONS = frozenset(StartOptions.__annotations__)


class _Connection:
    """An engine that is opened at the first use and closed once."""

    def __init__(self, open_engine: Opener, max_payload: int) -> None:
        check_limit("max_payload", max_payload)
        self.max_payload = max_payload
        self._open = open_engine
        self._lock = asyncio.Lock()
        self._engine: ClientEngine | None = None
        self._closed = False

    async def engine(self) -> ClientEngine:
        """Return the engine; the first call opens it, and a call after a failure tries again."""
        async with self._lock:
            if self._closed:
                raise RuntimeError("this client is closed; make a new one")
            if self._engine is None:
                require_msgspec()
                self._engine = await self._open()
            return self._engine

    async def close(self) -> None:
        self._closed = True
        async with self._lock:
            engine, self._engine = self._engine, None
            if engine is not None:
                await engine.close()


class Client:
    """A client of one engine. Safe to share between the tasks of one event loop.

    It connects when it is first used, or at `async with`; `close` or the end of the block
    closes what was opened. Making one connects to nothing. A first use raises `ConnectionError`
    when the server cannot be reached, and `ImportError` when msgspec is not installed.

    Args:
        engine: the engine, or a coroutine function that connects to it. It is called again
            when the first call failed, and must leave nothing open when it is cancelled.
        max_payload: how many bytes one encoded value, or all arguments of a start, may take.
    """

    def __init__(
        self, engine: ClientEngine | Opener, *, max_payload: int = DEFAULT_MAX_PAYLOAD
    ) -> None:
        self._connection = _Connection(_opener(engine), max_payload)

    async def __aenter__(self) -> Self:
        await self._connection.engine()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. A second call does nothing; runs go on."""
        await self._connection.close()

    async def start(
        self, target: Target[R], /, *args: Any, id: str, **options: Unpack[StartOptions]
    ) -> Handle[R]:
        """Start a run, or attach to the one that bears the id already.

        Once it returns, the start is durable. A call that failed on its way to the engine may be
        made again: an id names one run. No worker of the target need be alive.

        Args:
            target: what to run; `app.target(flow)` makes one that knows the flow's types.
            args: the flow's arguments after its context.
            id: the id of the run.
            options: see `StartOptions`.

        Raises:
            FlowError: `already-started`: the id is taken, by a run of another flow or under
                `on_existing="reject"`.
            ValueError: the id or an option is not valid.
            TypeError: the arguments do not fit the flow, or cannot be encoded.
            Failure: type `PayloadTooLarge`: the arguments take more than `max_payload` bytes.
        """
        check_options("start", options, _START_OPTIONS)
        existing = check_existing(options.get("on_existing", Existing.ATTACH))
        request = self._request("start", target, args, id, options)
        engine = await self._connection.engine()
        reply = await engine.start(request)
        check_reply(request, reply, existing)
        return Handle(self._connection, request.id, target.result_type, created=reply.created)

    async def signal_with_start(
        self,
        target: Target[R],
        /,
        *args: Any,
        topic: str,
        value: Any,
        id: str,
        message_id: str | None = None,
        timeout: Duration | None = None,
        priority: int | None = None,
    ) -> Handle[R]:
        """Start a run with a message, or send the message to the running one: one or the other.

        Args:
            target: what to run.
            args: the flow's arguments after its context.
            topic: the message's topic.
            value: the message.
            id: the id of the run.
            message_id: the message is delivered once however often it is sent.
            timeout: how long the run may take from its start, if this call starts it.
            priority: 1 (first) to 5 (last), if this call starts it.

        Raises:
            FlowError: `already-started`: the run of the id is finished, or of another flow; it
                gets no message.
            ValueError: a name or an option is not valid.
            TypeError: the arguments do not fit the flow, or something cannot be encoded.
            Failure: type `PayloadTooLarge`.
        """
        options = StartOptions(timeout=timeout, priority=priority)
        request = self._request("signal_with_start", target, args, id, options)
        sent = message(topic, value, message_id, self._connection.max_payload)
        engine = await self._connection.engine()
        reply = await engine.signal_with_start(request, sent)
        check_reply(request, reply, Existing.ATTACH)
        if not reply.created and reply.status is not Status.RUNNING:
            raise taken(request.id, reply)
        return Handle(self._connection, request.id, target.result_type, created=reply.created)

    @overload
    def handle(self, id: str) -> Handle[Any]: ...

    @overload
    def handle(self, id: str, *, result_type: TypeForm[T]) -> Handle[T]: ...

    def handle(self, id: str, *, result_type: Any = ANY) -> Handle[Any]:
        """Return a handle to a run that need not exist; it asks the engine nothing.

        Raises:
            ValueError: the id is not valid.
        """
        return Handle(self._connection, check_name("id of a flow", id), result_type, created=False)

    async def list(
        self,
        *,
        id_prefix: str | None = None,
        app: str | None = None,
        flow: str | None = None,
        status: Status | str | None = None,
        since: datetime | None = None,
        limit: int = 100,
    ) -> list[FlowDescription]:
        """List runs, newest first, as the engine knows them.

        Args:
            id_prefix: what their ids begin with.
            app: their app.
            flow: the name of their flow.
            status: their status.
            since: started then or later; an aware time.
            limit: how many at most.

        Raises:
            ValueError: a filter is not valid.
        """
        if type(limit) is not int or limit < 1:
            raise ValueError(f"limit must be a whole number above 0, not {limit!r}")
        if since is not None and since.tzinfo is None:
            raise ValueError(f"since must be an aware datetime, not {since!r}; give it a tzinfo")
        wanted = FlowFilter(id_prefix, app, flow, _check_status(status), since, limit)
        engine = await self._connection.engine()
        return await engine.list(wanted)

    def _request(
        self, call: str, target: Target[Any], args: tuple[Any, ...], id: str, options: StartOptions
    ) -> StartRequest:
        _check_target(call, target)
        return start_request(
            target,
            encode_args(target, args, self._connection.max_payload),
            id=id,
            timeout=options.get("timeout"),
            priority=options.get("priority"),
        )


class Handle(Generic[R]):
    """A run, by its id. It stays usable for as long as its client is open.

    Every method raises a `FlowError` of reason `not-found` when the engine has no such run.
    """

    def __init__(
        self, connection: _Connection, id: str, result_type: Any, *, created: bool
    ) -> None:
        self._connection = connection
        self._id = id
        self._result_type = result_type
        self._created = created

    def __repr__(self) -> str:
        return f"<Handle {self._id!r}>"

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._id

    @property
    def created(self) -> bool:
        """Whether the call that returned this handle started the run."""
        return self._created

    @overload
    async def result(self, *, timeout: Duration | None = None) -> R: ...

    @overload
    async def result(self, *, result_type: TypeForm[T], timeout: Duration | None = None) -> T: ...

    async def result(self, *, result_type: Any = ANY, timeout: Duration | None = None) -> Any:
        """Wait for the run's outcome and return its result.

        Neither a timeout nor a cancel of the waiter touches the run.

        Args:
            result_type: what to decode the result as; the target's type when it is left out.
            timeout: how long to wait.

        Raises:
            FlowError: the run came to nothing: `failed`, `timeout`, `terminated`.
            TimeoutError: the built-in one: no outcome within `timeout`.
            Failure: type `DecodeError`: the result does not fit `result_type`.
        """
        limit = None if timeout is None else seconds("timeout", timeout, zero=True)
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                engine = await self._connection.engine()
                outcome = await engine.result(self._id)
        except TimeoutError:
            if not scope.expired():
                raise
            text = f"flow {self._id!r} came to no outcome within {limit:g} s; it goes on"
            raise TimeoutError(text) from None
        hint = self._result_type if result_type is ANY else result_type
        return decode(value_of(outcome), hint, where=f"result of flow {self._id!r}")

    async def signal(self, topic: str, value: Any, message_id: str | None = None) -> None:
        """Send a message to the run; once it returns, the message is durable.

        Args:
            topic: what the flow receives on.
            value: the message.
            message_id: the message is delivered once however often it is sent.

        Raises:
            FlowError: `not-found`: the run is missing or finished.
            ValueError: a name is not valid.
            TypeError: the value cannot be encoded.
            Failure: type `PayloadTooLarge`.
        """
        sent = message(topic, value, message_id, self._connection.max_payload)
        engine = await self._connection.engine()
        await engine.signal(self._id, sent)

    @overload
    async def query(self, key: str) -> Any: ...

    @overload
    async def query(self, key: str, *, result_type: TypeForm[T]) -> T | None: ...

    async def query(self, key: str, *, result_type: Any = ANY) -> Any:
        """Return the last value that the flow set for the key, also after its end; else None.

        Raises:
            FlowError: `not-found`: the run is missing.
            Failure: type `DecodeError`: the value does not fit `result_type`.
        """
        check_name("key", key)
        engine = await self._connection.engine()
        value = await engine.query(self._id, key)
        if value is None:
            return None
        return decode(value, result_type, where=f"state {key!r} of flow {self._id!r}")

    async def describe(self) -> FlowDescription:
        """Describe the run.

        Raises:
            FlowError: `not-found`: the run is missing.
        """
        engine = await self._connection.engine()
        return await engine.describe(self._id)

    async def terminate(self, *, reason: str = "") -> None:
        """End the run now; a finished one stays as it is. Its children go on.

        Args:
            reason: what the run's error says.

        Raises:
            FlowError: `not-found`: the run is missing.
        """
        engine = await self._connection.engine()
        await engine.terminate(self._id, reason)


def _opener(engine: ClientEngine | Opener) -> Opener:
    if callable(engine):
        return engine

    async def ready() -> ClientEngine:
        return engine

    return ready


def _check_target(call: str, target: object) -> None:
    if not isinstance(target, Target):
        name = getattr(target, "__name__", None)
        use = f"app.target({name})" if name else 'Target("app", "flow")'
        raise TypeError(f"{call}() takes a Target, not {target!r}; use {use}")


def _check_status(status: Status | str | None) -> Status | None:
    try:
        return None if status is None else Status(status)
    except ValueError:
        known = ", ".join(repr(str(one)) for one in Status)
        raise ValueError(f"no status {status!r} (statuses: {known})") from None
