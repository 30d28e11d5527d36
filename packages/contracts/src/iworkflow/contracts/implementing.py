"""What the owner's flow runs in: its contract, kept at build time and at run time."""

from __future__ import annotations

import contextlib
import inspect
import types
import typing
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, Union, overload

from iworkflow.contracts.contract import WorkflowContract, messages_of
from iworkflow.contracts.handles import AnyContract, addressed
from iworkflow.contracts.parts import Message
from iworkflow.contracts.states import STATE_KEY, Walk
from iworkflow.core.codec import ANY, decode, encode, fingerprint, show
from iworkflow.core.codec.hints import unwrap
from iworkflow.core.context import Context
from iworkflow.core.options import Duration

if TYPE_CHECKING:
    from typing_extensions import TypeForm

InT = TypeVar("InT")
OutT = TypeVar("OutT")
T = TypeVar("T")
D = TypeVar("D")

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NOTHING = object()


class ContractContext(Context):
    """The context of a flow that implements a contract: it keeps to its messages and states.

    `recv` and `set_state` take the contract's own messages, typed, or their names; a name that
    the contract does not have raises `ValueError`.
    """

    _contract: AnyContract
    _walk: Walk

    @classmethod
    def over(cls, ctx: Context, contract: AnyContract) -> ContractContext:
        """Look at the same run through its contract."""
        view = cls.__new__(cls)
        vars(view).update(vars(ctx))
        view._contract = contract
        view._walk = contract.walk()
        return view

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
        self, topic: str, timeout: Duration | None, default: D, *, result_type: TypeForm[T]
    ) -> T | D: ...

    @overload
    async def recv(self, topic: Message[T], timeout: Duration | None = None) -> T | None: ...

    async def recv(
        self,
        topic: str | Message[Any],
        timeout: Duration | None = None,
        default: Any = None,
        *,
        result_type: Any = ANY,
    ) -> Any:
        """Take the oldest unread message of a signal of the contract.

        It is read as the contract's type for it, also by its name; `result_type` reads it as
        another on top.

        Raises:
            ValueError: the contract has no such signal.
            Failure: type `DecodeError`, not retryable: the message does not fit the contract;
                it is consumed.
        """
        name = addressed(self._contract, "signals", topic)
        value = await super().recv(name, timeout, _NOTHING)
        if value is _NOTHING:
            return default
        hint = messages_of(self._contract, "signals")[name].type
        where = f"signal {name!r} of contract {self._contract.name!r}"
        read = decode(value, hint, where=where)
        return read if result_type is ANY else decode(value, result_type, where=where)

    @overload
    async def set_state(self, key: Message[T], value: T) -> None: ...

    @overload
    async def set_state(self, key: str, value: Any) -> None: ...

    async def set_state(self, key: str | Message[Any], value: Any) -> None:
        """Set what a query of the contract answers; key "state" enters a state of it.

        Raises:
            ValueError: the contract has no such query.
            TypeError: the value does not fit the query's type; names the path.
            Failure: type `INVALID_TRANSITION`, not retryable: the state may not follow.
        """
        if key == STATE_KEY and self._contract.states:
            self._walk.enter(value)
            return await super().set_state(STATE_KEY, value)
        name = addressed(self._contract, "queries", key)
        where = f"query {name!r} of contract {self._contract.name!r}"
        encoded = encode(value, messages_of(self._contract, "queries")[name].type, where=where)
        return await super().set_state(name, encoded)

    def end(self, outcome: str) -> None:
        """End the walk through the states with an outcome."""
        self._walk.end(outcome)


def implements(
    contract: WorkflowContract[InT, OutT, Any, Any],
) -> Callable[
    [Callable[[ContractContext, InT], Awaitable[OutT]]],
    Callable[[Context, InT], Awaitable[Any]],
]:
    """Make a flow the one that implements a contract: `flows=[implements(contract)(flow)]`.

    It is registered under the contract's name, in the app that is the contract's task queue. At
    run time its input, its messages, its states and its outcome are the contract's: what is
    foreign to it fails the run at once, and names the path.

    Args:
        contract: what the flow implements.

    Raises:
        TypeError: the flow's signature does not fit the contract.
    """

    def decorate(
        flow: Callable[[ContractContext, InT], Awaitable[OutT]],
    ) -> Callable[[Context, InT], Awaitable[Any]]:
        _check_signature(contract, flow)

        async def implementation(ctx: Context, data: InT) -> Any:
            view = ContractContext.over(ctx, contract)
            outcome, encoded = contract.encode_outcome(await flow(view, data))
            view.end(outcome)
            return encoded

        _dress(implementation, contract, flow)
        return implementation

    return decorate


def _dress(implementation: Any, contract: AnyContract, flow: Any) -> None:
    """Give the implementation the names by which an app registers it and an engine finds it."""
    path = f"implements_{fingerprint(contract.name)}"
    implementation.__name__ = contract.name
    implementation.__qualname__ = f"{getattr(flow, '__qualname__', contract.name)}.{path}"
    implementation.__module__ = getattr(flow, "__module__", __name__)
    implementation.__doc__ = flow.__doc__
    implementation.__annotations__ = {"ctx": Context, "data": contract.input}
    parameters = [
        inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_ONLY),
        inspect.Parameter("data", inspect.Parameter.POSITIONAL_ONLY),
    ]
    implementation.__signature__ = inspect.Signature(parameters)
    implementation.__iworkflow_registered__ = _registration(contract)
    # An engine that imports flow modules anew looks the copy up by its qualified name.
    setattr(implementation, path, implementation)
    with contextlib.suppress(AttributeError):
        setattr(flow, path, implementation)


def _registration(contract: AnyContract) -> Callable[[str, str], None]:
    def registered(app: str, name: str) -> None:
        if app != contract.task_queue:
            raise ValueError(
                f"contract {contract.name!r}: task_queue is {contract.task_queue!r}, but app "
                f"{app!r} lists its flow; list it in the app of that name"
            )
        if name != contract.name:
            raise ValueError(
                f"contract {contract.name!r}: its flow is listed as {name!r}; list it in a "
                f"sequence, or as {contract.name!r}"
            )

    return registered


def _check_signature(contract: AnyContract, flow: Any) -> None:
    where = f"contract {contract.name!r}: flow {getattr(flow, '__name__', repr(flow))!r}"
    if not inspect.iscoroutinefunction(flow):
        raise TypeError(f"{where} is not async; write 'async def'")
    parameters = list(inspect.signature(flow).parameters.values())
    required = [one for one in parameters if one.default is inspect.Parameter.empty]
    positional = [one for one in parameters if one.kind in _POSITIONAL]
    if len(positional) < 2 or len(required) > 2 or any(one not in positional for one in required):
        raise TypeError(f"{where} must take the context and the input: (ctx, data)")
    taken = positional[1].name
    hint = _hint(flow, taken, where)
    if hint is not ANY and unwrap(hint) != unwrap(contract.input):
        raise TypeError(
            f"{where}: parameter {taken!r} is {show(hint)}, the contract's input is "
            f"{show(contract.input)}"
        )
    _check_result(contract, _hint(flow, "return", where), where)


def _check_result(contract: AnyContract, hint: Any, where: str) -> None:
    if hint is ANY:
        return
    bare = unwrap(hint)
    is_union = typing.get_origin(bare) in (Union, types.UnionType)
    known = list(contract.outcomes.values())
    for one in typing.get_args(bare) if is_union else (bare,):
        if unwrap(one) not in known and unwrap(one) is not ANY:
            listed = ", ".join(show(outcome) for outcome in known)
            raise TypeError(
                f"{where} returns {show(one)}, which is no outcome of the contract "
                f"(outcomes: {listed})"
            )


def _hint(flow: Any, name: str, where: str) -> Any:
    """Resolve one annotation; the others need not resolve."""
    function = inspect.unwrap(flow)
    notes = inspect.get_annotations(function)
    if name not in notes:
        return ANY
    holder = types.SimpleNamespace(__annotations__={name: notes[name]})
    scope = getattr(function, "__globals__", {})
    try:
        return _or_any(typing.get_type_hints(holder, scope, include_extras=True)[name])
    except Exception as error:
        raise TypeError(
            f"{where}: cannot resolve the hint {notes[name]!r}: {error} "
            "(a name imported under TYPE_CHECKING, or local to a function?)"
        ) from None


def _or_any(hint: Any) -> Any:
    return ANY if unwrap(hint) is ANY else hint
