"""What a flow calls: its context.

The context resolves names, checks options, encodes and decodes, and turns outcomes into values
or errors. Everything that it asks of an engine is an operation, issued through the run's driver.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    TypeVar,
    TypeVarTuple,
    Unpack,
    cast,
    overload,
)
from uuid import UUID

from iworkflow.core.calls import (
    check_existing,
    check_options,
    check_reply,
    encode_args,
    encode_one,
    message,
    start_request,
    value_of,
)
from iworkflow.core.child import ChildHandle
from iworkflow.core.codec import ANY, check_size, decode
from iworkflow.core.definition import AppDefinition, Target, step_policy
from iworkflow.core.flow.log import FlowLog
from iworkflow.core.naming import check_name
from iworkflow.core.options import ChildOptions, Duration, StepOptions, seconds
from iworkflow.core.port import (
    Operation,
    ReadClock,
    RunStep,
    SendSignal,
    SetState,
    Sleep,
    StartChild,
    StartReply,
    Status,
)

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from iworkflow.core.flow.run import FlowRun

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
T = TypeVar("T")

_CHILD_OPTIONS = frozenset(ChildOptions.__annotations__)


class Context:
    """The first parameter of a flow. It works inside its own flow only.

    Everything awaited here is durable: after a crash, a replay of the flow gets the recorded
    answer and repeats no effect. Every `FlowError` that these calls raise can be caught.
    """

    def __init__(self, run: FlowRun, app: AppDefinition, *, max_payload: int) -> None:
        self._run = run
        self._app = app
        self._max_payload = max_payload
        self._random = random.Random(f"{run.info.run_id}/random")  # noqa: S311  # replayable
        self._uuids = random.Random(f"{run.info.run_id}/uuid")  # noqa: S311
        self._log = FlowLog(run)

    def __repr__(self) -> str:
        return f"<Context of {self.workflow_id!r}>"

    @property
    def workflow_id(self) -> str:
        """The id of this run."""
        return self._run.info.workflow_id

    @property
    def parent_id(self) -> str | None:
        """The id of the run that started this one as its child."""
        return self._run.info.parent_id

    @property
    def started_at(self) -> datetime:
        """When this run was started, in UTC."""
        return self._run.info.started_at

    @property
    def priority(self) -> int:
        """1 (first) to 5 (last): what steps and children inherit."""
        return self._run.info.priority

    @property
    def random(self) -> random.Random:
        """A generator that gives the same numbers on a replay."""
        return self._random

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that is silent on replay; records carry `workflow_id`, `flow` and `app`."""
        return self._log

    def uuid4(self) -> UUID:
        """Return a random UUID; a replay gets the same."""
        return UUID(int=self._uuids.getrandbits(128), version=4)

    async def now(self) -> datetime:
        """Return the time in UTC; a replay gets the same."""
        completion = await self._run.issue(ReadClock())
        return datetime.fromtimestamp(completion.at, UTC)

    @overload
    async def step(
        self,
        step: Callable[[Unpack[Ts]], Awaitable[R]],
        /,
        *args: *Ts,
        **options: Unpack[StepOptions],
    ) -> R: ...

    @overload
    async def step(
        self,
        step: Callable[[Unpack[Ts]], R],
        /,
        *args: *Ts,
        **options: Unpack[StepOptions],
    ) -> R: ...

    @overload
    async def step(
        self,
        step: str,
        /,
        *args: Any,
        result_type: TypeForm[R],
        **options: Unpack[StepOptions],
    ) -> R: ...

    @overload
    async def step(self, step: str, /, *args: Any, **options: Unpack[StepOptions]) -> Any: ...

    # mypy does not see that `*args: Any` takes what `*Ts` stands for.
    async def step(  # type: ignore[misc]
        self,
        step: Callable[..., Any] | str,
        /,
        *args: Any,
        result_type: Any = ANY,
        **options: Any,
    ) -> Any:
        """Run a step with its retries, and return its result.

        The step runs at least once; once its result is recorded it never runs again. A cancel
        of this call cancels the running attempt, and drops its result.

        Args:
            step: the function as the app lists it, or its name.
            args: its arguments.
            result_type: what to decode the result as; the function's own by default.
            options: see `StepOptions`.

        Raises:
            FlowError: the step failed (`exhausted`: its attempts ran out) or timed out.
            ValueError: the app has no such step or pool, or an option is not valid.
            TypeError: the arguments do not fit the step or cannot be encoded.
            Failure: type `PayloadTooLarge` or `DecodeError`.
        """
        activity = self._app.activity(step)
        policy = step_policy(
            self._app,
            activity.name,
            cast("StepOptions", options),
            default_priority=self.priority,
        )
        where = f"step {activity.name!r}"
        encoded = activity.signature.encode_args(args, where=where)
        check_size(encoded, self._max_payload, where=f"arguments of {where}")
        digest = activity.signature.digest(activity.name, args)
        value = await self._call(RunStep(activity.name, encoded, policy, digest))
        hint = activity.signature.result if result_type is ANY else result_type
        return decode(value, hint, where=f"result of {where}")

    @overload
    async def child(
        self,
        target: Callable[Concatenate[Context, ...], Awaitable[R]] | Target[R],
        /,
        *args: Any,
        id: str,
        **options: Unpack[ChildOptions],
    ) -> R: ...

    @overload
    async def child(
        self,
        target: Target[Any],
        /,
        *args: Any,
        id: str,
        result_type: TypeForm[T],
        **options: Unpack[ChildOptions],
    ) -> T: ...

    async def child(
        self,
        target: Any,
        /,
        *args: Any,
        id: str,
        result_type: Any = ANY,
        **options: Unpack[ChildOptions],
    ) -> Any:
        """Run another flow, and return its outcome.

        The child is a run of its own: it goes on if this flow ends. A cancel of this call ends
        the wait, not the child.

        Args:
            target: a flow of this app, or a `Target`; its app may be down, then this waits.
            args: its arguments after the context.
            id: its id. A run that bears it already is attached to, unless
                `on_existing="reject"`.
            result_type: what to decode the outcome as; the target's own by default.
            options: see `ChildOptions`.

        Raises:
            FlowError: `failed`, with the type and details of what broke inside; `timeout` or
                `terminated`: the child itself; `already-started`: the id is taken.
            ValueError, TypeError, Failure: as for `step`.
        """
        options.setdefault("on_existing", "attach")
        handle = await self._start(
            "child", target, args, id=id, result_type=result_type, options=options
        )
        return await handle.result()

    @overload
    async def start_child(
        self,
        target: Callable[Concatenate[Context, ...], Awaitable[R]] | Target[R],
        /,
        *args: Any,
        id: str,
        **options: Unpack[ChildOptions],
    ) -> ChildHandle[R]: ...

    @overload
    async def start_child(
        self,
        target: Target[Any],
        /,
        *args: Any,
        id: str,
        result_type: TypeForm[T],
        **options: Unpack[ChildOptions],
    ) -> ChildHandle[T]: ...

    async def start_child(
        self,
        target: Any,
        /,
        *args: Any,
        id: str,
        result_type: Any = ANY,
        **options: Unpack[ChildOptions],
    ) -> Any:
        """Start another flow, and return once its start is durable.

        Like `child`, but a taken id is refused unless `on_existing="attach"`.
        """
        options.setdefault("on_existing", "reject")
        return await self._start(
            "start_child", target, args, id=id, result_type=result_type, options=options
        )

    @overload
    async def recv(
        self, topic: str, timeout: Duration | None = None, default: Any = None
    ) -> Any: ...

    @overload
    async def recv(
        self,
        topic: str,
        timeout: Duration | None = None,
        default: None = None,
        *,
        result_type: TypeForm[T],
    ) -> T | None: ...

    @overload
    async def recv(
        self, topic: str, timeout: Duration | None, default: R, *, result_type: TypeForm[T]
    ) -> T | R: ...

    async def recv(
        self,
        topic: str,
        timeout: Duration | None = None,
        default: Any = None,
        *,
        result_type: Any = ANY,
    ) -> Any:
        """Take the oldest unread message of a topic, or wait for one.

        A message is consumed once, across crashes. A `recv` that is cancelled, or whose time is
        up, consumes nothing.

        Args:
            topic: the topic; others are not touched.
            timeout: how long to wait; for ever by default.
            default: what is returned once the time is up.
            result_type: what to decode the message as.

        Raises:
            ValueError: the topic or the timeout is not valid.
            Failure: type `DecodeError`: the message does not fit; it is consumed.
            FlowError: type `DecodeError`: it was sent in no form that can be read; likewise.
        """
        check_name("topic", topic)
        limit = None if timeout is None else seconds("timeout", timeout, zero=True)
        found = cast("dict[str, Any] | None", value_of(await self._run.receive(topic, limit)))
        if found is None:
            return default
        return decode(found["message"], result_type, where=f"message of topic {topic!r}")

    async def signal(
        self, workflow_id: str, topic: str, value: Any, message_id: str | None = None
    ) -> None:
        """Send a message to another flow, once.

        Args:
            workflow_id: the id of the run.
            topic: what it receives on.
            value: the message.
            message_id: the message is delivered once however often it is sent.

        Raises:
            FlowError: `not-found`: the run is missing or finished.
            ValueError, TypeError, Failure: a name or the value is not valid.
        """
        check_name("id of a flow", workflow_id)
        sent = message(topic, value, message_id, self._max_payload)
        await self._call(SendSignal(workflow_id, sent))

    async def sleep(self, duration: Duration) -> None:
        """Wait, also across crashes; 0 returns at once.

        Raises:
            ValueError: the duration is negative.
        """
        length = seconds("duration", duration, zero=True)
        if length:
            await self._call(Sleep(length))

    async def set_state(self, key: str, value: Any) -> None:
        """Set what a query of the key answers, also after the flow's end.

        Raises:
            ValueError, TypeError, Failure: the key or the value is not valid.
        """
        check_name("key", key)
        encoded = encode_one(value, self._max_payload, where=f"state {key!r}")
        await self._call(SetState(key, encoded))

    async def patched(self, id: str) -> bool:
        """Whether this run was born under code that declares the patch; it never changes.

        Raises:
            ValueError: the app does not declare the patch.
        """
        self._check_patch(id)
        return id in self._run.info.patches

    async def deprecate_patch(self, id: str) -> None:
        """Say that the code for runs born without the patch is gone.

        A run born with it notices nothing. An older one is parked until code that can carry it
        on is back.

        Raises:
            ValueError: the app does not declare the patch.
        """
        self._check_patch(id)
        if id not in self._run.info.patches:
            await self._run.park(
                f"patch {id!r} is deprecated, but this run was born before it; "
                "bring back the code for older runs until they are done"
            )

    def _known(self, target: Target[Any] | Callable[..., Awaitable[Any]]) -> Target[Any]:
        if isinstance(target, Target):
            return target  # pyright: ignore[reportUnknownVariableType]
        return self._app.target(cast("Any", target))

    def _check_patch(self, id: str) -> None:
        if id not in self._app.patches:
            declared = ", ".join(repr(one) for one in self._app.patches) or "none"
            raise ValueError(
                f"app {self._app.app!r} declares no patch {id!r} (patches: {declared})"
            )

    async def _call(self, operation: Operation) -> Any:
        completion = await self._run.issue(operation)
        return value_of(completion.outcome)

    async def _start(
        self,
        call: str,
        target: Target[Any] | Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        *,
        id: str,
        result_type: Any,
        options: ChildOptions,
    ) -> ChildHandle[Any]:
        check_options(call, options, _CHILD_OPTIONS)
        existing = check_existing(options.get("on_existing"))
        known = self._known(target)
        request = start_request(
            known,
            encode_args(known, args, self._max_payload),
            id=id,
            timeout=options.get("timeout"),
            priority=options.get("priority"),
            default_priority=self.priority,
            parent_id=self.workflow_id,
        )
        value = await self._call(StartChild(request))
        reply = StartReply(
            created=value["created"],
            app=value["app"],
            flow=value["flow"],
            status=Status(value["status"]),
        )
        check_reply(request, reply, existing)
        hint = known.result_type if result_type is ANY else result_type
        return ChildHandle(self._run, id, hint, created=reply.created)
