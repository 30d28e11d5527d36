"""Runs of a contract, typed: what starting or finding one returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from iworkflow.contracts.contract import WorkflowContract, messages_of
from iworkflow.contracts.parts import Message
from iworkflow.contracts.states import STATE_KEY
from iworkflow.core.checks import choices
from iworkflow.core.child import ChildHandle
from iworkflow.core.client import Handle
from iworkflow.core.codec import decode, encode
from iworkflow.core.context import Context
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.options import Duration
from iworkflow.core.port import FlowDescription

OutT = TypeVar("OutT")
T = TypeVar("T")

if TYPE_CHECKING:
    AnyContract = WorkflowContract[Any, Any, Any, Any]
else:
    AnyContract = WorkflowContract


class ContractHandle(Generic[OutT]):
    """A run of a contract, from outside. `handle` is the untyped one below."""

    def __init__(
        self, contract: WorkflowContract[Any, OutT, Any, Any], handle: Handle[Any]
    ) -> None:
        self.contract = contract
        self.handle = handle

    def __repr__(self) -> str:
        return f"<ContractHandle {self.id!r} of {self.contract.name!r}>"

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.handle.id

    @property
    def created(self) -> bool:
        """Whether the call that returned this handle started the run."""
        return self.handle.created

    async def result(self, *, timeout: Duration | None = None) -> OutT:
        """Wait for the outcome. Neither a timeout nor a cancel of the waiter touches the run.

        Raises:
            FlowError: the run came to nothing: `failed`, `timeout`, `terminated`, `not-found`.
            TimeoutError: the built-in one: no outcome within `timeout`.
            Failure: type `DecodeError`: it is no outcome of the contract.
        """
        value = await self.handle.result(timeout=timeout)
        return self.contract.decode_outcome(cast("JsonValue", value))

    async def signal(self, message: Message[T], value: T, message_id: str | None = None) -> None:
        """Send a message, addressed as `contract.signals["approve"]`.

        Args:
            message: what to send.
            value: its value.
            message_id: it is delivered once however often it is sent.

        Raises:
            FlowError: `not-found`: the run is missing or finished.
            ValueError: the message is none of this contract's signals.
            TypeError: the value does not fit; names the path.
        """
        topic, encoded = encode_signal(self.contract, message, value)
        await self.handle.signal(topic, encoded, message_id)

    async def query(self, message: Message[T]) -> T | None:
        """Ask for the last value set, addressed as `contract.queries["status"]`; else None.

        Raises:
            FlowError: `not-found`: the run is missing.
            ValueError: the message is none of this contract's queries.
            Failure: type `DecodeError`: the value does not fit.
        """
        key = addressed(self.contract, "queries", message)
        value = await self.handle.query(key)
        if value is None:
            return None
        where = f"query {key!r} of contract {self.contract.name!r}"
        return cast("T", decode(value, message.type, where=where))

    async def state(self) -> str | None:
        """The name of the state that the run told last, or None.

        Raises:
            FlowError: `not-found`: the run is missing.
        """
        return await self.handle.query(STATE_KEY, result_type=str)

    async def describe(self) -> FlowDescription:
        """Describe the run; `not-found` if it is missing."""
        return await self.handle.describe()

    async def terminate(self, *, reason: str = "") -> None:
        """End the run now; `not-found` if it is missing. A finished one stays as it is."""
        await self.handle.terminate(reason=reason)


class ContractChild(Generic[OutT]):
    """A run of a contract, from the flow that started it."""

    def __init__(
        self,
        contract: WorkflowContract[Any, OutT, Any, Any],
        ctx: Context,
        child: ChildHandle[Any],
    ) -> None:
        self.contract = contract
        self._ctx = ctx
        self._child = child

    def __repr__(self) -> str:
        return f"<ContractChild {self.id!r} of {self.contract.name!r}>"

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._child.id

    @property
    def created(self) -> bool:
        """Whether this flow started it."""
        return self._child.created

    async def result(self) -> OutT:
        """Wait for the outcome; the errors are those of `child_contract`."""
        return self.contract.decode_outcome(await self._child.result())

    async def signal(self, message: Message[T], value: T, message_id: str | None = None) -> None:
        """Send a message, once; see `ContractHandle.signal`."""
        topic, encoded = encode_signal(self.contract, message, value)
        await self._ctx.signal(self.id, topic, encoded, message_id)


def encode_signal(contract: AnyContract, message: Message[T], value: T) -> tuple[str, JsonValue]:
    """Address a signal, and encode its value by its type.

    Raises:
        ValueError: the message is none of the contract's signals.
        TypeError: the value does not fit.
    """
    topic = addressed(contract, "signals", message)
    where = f"signal {topic!r} of contract {contract.name!r}"
    return topic, encode(value, message.type, where=where)


def addressed(contract: AnyContract, sort: str, message: Message[Any] | str) -> str:
    """Return the name of a message that the contract has.

    Raises:
        ValueError: it has none such; lists those it has.
    """
    known = messages_of(contract, sort)
    name = message if isinstance(message, str) else message.name
    if name in known and message in (name, known[name]):
        return name
    word, listed = {"signals": ("signal", "signal"), "queries": ("query", "key")}[sort]
    why = f"no {word} {name!r} {choices(listed, name, known)}"
    if not isinstance(message, str) and message.contract not in ("", contract.name):
        why = f"{word} {name!r} is of contract {message.contract!r}"
    elif not name:
        why = f'address a {word} as contract.{sort}["..."] {choices(listed, name, known)}'
    raise ValueError(f"contract {contract.name!r}: {why}")
