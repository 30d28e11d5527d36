"""An app: its flows, its steps and its limits, checked when it is built."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import GenericAlias, MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, TypeVar, TypeVarTuple, cast, overload

from iworkflow.core.checks import check_app_name, check_limit, choices
from iworkflow.core.codec import ANY, check_hint
from iworkflow.core.codec.hints import is_a, of_class
from iworkflow.core.naming import check_name
from iworkflow.core.options import step_policy
from iworkflow.core.signature import Signature, first_parameter

if TYPE_CHECKING:
    from typing_extensions import TypeForm
    from typing_extensions import TypeVar as DefaultedTypeVar

    from iworkflow.core.context import Context

    Flow = Callable[Concatenate[Context, ...], Awaitable[Any]]
    """A flow: an `async def` whose first parameter is the context."""
    ResultT = DefaultedTypeVar("ResultT", default=Any)
else:
    Flow = Callable[..., Awaitable[Any]]
    ResultT = TypeVar("ResultT")

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

Functions = Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """A flow of an app."""

    name: str
    fn: Callable[..., Awaitable[Any]]
    signature: Signature


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """A step of an app. `is_async` is false for one that needs a thread."""

    name: str
    fn: Callable[..., Any]
    signature: Signature
    is_async: bool


@dataclass(frozen=True, slots=True)
class Target(Generic[ResultT]):
    """A flow of an app by its names: what a client starts, and a flow as its child.

    Args:
        app: the name of the app; it need not be known in this process.
        flow: the name of the flow.
        result_type: what the result is read as; without it, plain JSON.
        signature: the flow's own, where it is known: arguments are checked against it.

    Raises:
        ValueError: a name is not one.
    """

    app: str
    flow: str
    result_type: TypeForm[ResultT] = ANY
    signature: Signature | None = field(default=None, kw_only=True, compare=False, repr=False)

    if not TYPE_CHECKING:
        # `Target[str](...)` fails before Python 3.13 with that of Generic.
        __class_getitem__ = classmethod(GenericAlias)

    def __post_init__(self) -> None:
        check_app_name(self.app)
        check_name(f"flow of target {self.app!r}", self.flow)
        check_hint(self.result_type, where=f"target {self.app}/{self.flow}: result_type")


@dataclass(frozen=True, slots=True, init=False, eq=False)
class AppDefinition:
    """An app: the flows and steps that its workers run, and their limits.

    A flow that has an attribute `__iworkflow_registered__` gets it called with the name of the
    app and its own, and may refuse either.

    Args:
        app: 3 to 256 characters of a-z, 0-9, `-` and `_`.
        flows: name -> flow, or flows that are named as their functions are.
        activities: the same for steps.
        pools: name -> how many attempts of the pool run at once in a worker process.
        patches: the ids that `ctx.patched` may ask for.
        max_concurrent_steps: how many attempts run at once in a worker process.

    Raises:
        ValueError: a name or a limit is wrong, or a name is given twice.
        TypeError: a function is not what it is given as, or a hint cannot be read back.
    """

    app: str
    flows: Mapping[str, FlowDefinition]
    activities: Mapping[str, StepDefinition]
    pools: Mapping[str, int]
    patches: frozenset[str]
    max_concurrent_steps: int

    def __init__(
        self,
        app: str,
        *,
        flows: Functions,
        activities: Functions = (),
        pools: Mapping[str, int] = MappingProxyType({}),
        patches: Iterable[str] = (),
        max_concurrent_steps: int = 100,
    ) -> None:
        check_app_name(app)
        where = f"app {app!r}"
        named_flows = _named("flow", flows, where).items()
        named_steps = _named("step", activities, where).items()
        check_limit(f"{where}: max_concurrent_steps", max_concurrent_steps)
        values: dict[str, Any] = {
            "app": app,
            "flows": MappingProxyType({name: _flow(name, fn) for name, fn in named_flows}),
            "activities": MappingProxyType({name: _step(name, fn) for name, fn in named_steps}),
            "pools": MappingProxyType(_checked_pools(pools, where)),
            "patches": _checked_patches(patches, where),
            "max_concurrent_steps": max_concurrent_steps,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        for name, flow in self.flows.items():
            _check_registered(app, name, flow.fn)

    def flow(self, flow: str | Callable[..., Any]) -> FlowDefinition:
        """Look a flow up by its name or its function.

        Raises:
            ValueError: the app has none such; lists those it has.
        """
        return _find("flow", flow, self.flows, self.app)

    def activity(self, step: str | Callable[..., Any]) -> StepDefinition:
        """Look a step up by its name or its function.

        Raises:
            ValueError: the app has none such; lists those it has.
        """
        return _find("step", step, self.activities, self.app)

    def rebound(self, bind: Callable[[Callable[..., Any]], Callable[..., Any]]) -> AppDefinition:
        """Return the same app over other copies of its functions.

        For an engine that loads modules anew: `bind` gets each function and returns the one to
        use, itself where it is the one. Definitions of functions that stay are kept.
        """
        flows = {name: _rebound(one, bind, _flow) for name, one in self.flows.items()}
        steps = {name: _rebound(one, bind, _step) for name, one in self.activities.items()}
        copy = object.__new__(AppDefinition)
        for name in self.__slots__:
            object.__setattr__(copy, name, getattr(self, name))
        object.__setattr__(copy, "flows", MappingProxyType(flows))
        object.__setattr__(copy, "activities", MappingProxyType(steps))
        return copy

    @overload
    def target(self, flow: Callable[[Context, *Ts], Awaitable[R]]) -> Target[R]: ...

    @overload
    def target(self, flow: str) -> Target[Any]: ...

    def target(self, flow: Any) -> Target[Any]:
        """Name a flow of this app, typed, for a client or a parent.

        Raises:
            ValueError: the app has none such; lists those it has.
        """
        found = self.flow(flow)
        signature = found.signature
        return Target(self.app, found.name, signature.result, signature=signature)


def _named(sort: str, functions: Functions, where: str) -> dict[str, Callable[..., Any]]:
    if isinstance(functions, Mapping):
        pairs = list(cast("Mapping[str, Callable[..., Any]]", functions).items())
    elif is_a(functions, str) or callable(functions):
        raise TypeError(f"{where}: {sort}s must be a mapping or a sequence, not {functions!r}")
    else:
        pairs = [(_own_name(sort, fn, where), fn) for fn in functions]
    named: dict[str, Callable[..., Any]] = {}
    for name, fn in pairs:
        _check_entry(sort, name, fn, where)
        if name in named:
            raise ValueError(f"{where}: two {sort}s are named {name!r}; name them with a mapping")
        named[name] = fn
    return named


def _own_name(sort: str, fn: Callable[..., Any], where: str) -> str:
    name = getattr(fn, "__name__", None)
    if name is None or name == "<lambda>":
        raise ValueError(f"{where}: the {sort} {fn!r} has no name; give one with a mapping")
    return cast("str", name)


def _check_entry(sort: str, name: object, fn: object, where: str) -> None:
    check_name(f"{where}: the name of a {sort}", name)
    if not callable(fn):
        raise TypeError(f"{where}: {sort} {name!r} is not callable: {fn!r}")


def _check_registered(app: str, name: str, fn: Callable[..., Any]) -> None:
    registered = getattr(fn, "__iworkflow_registered__", None)
    if registered is not None:
        registered(app, name)


def _flow(name: str, fn: Callable[..., Any]) -> FlowDefinition:
    where = f"flow {name!r}"
    _refuse_generator(fn, where)
    if not _is_async(fn):
        raise TypeError(f"{where} is not async; write 'async def'")
    _check_context(fn, where)
    return FlowDefinition(name, fn, Signature.of(fn, skip=1, where=where))


def _check_context(fn: Callable[..., Any], where: str) -> None:
    first = first_parameter(fn, where=where)
    if first is None:
        raise TypeError(f"{where} takes no context; its first parameter must be 'ctx: Context'")
    name, hint = first
    if hint is not ANY and _is_value(hint):
        raise TypeError(
            f"{where}: its first parameter {name!r} is a value; it must be 'ctx: Context'"
        )


def _is_value(hint: Any) -> bool:
    if hint is Any or hint is object:
        return False
    try:
        check_hint(hint, where="")
    except TypeError:
        return False
    return True


def _step(name: str, fn: Callable[..., Any]) -> StepDefinition:
    where = f"step {name!r}"
    _refuse_generator(fn, where)
    signature = Signature.of(fn, skip=0, where=where)
    return StepDefinition(name, fn, signature, is_async=_is_async(fn))


def _is_async(fn: Any) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(_call(fn))


def _refuse_generator(fn: Any, where: str) -> None:
    checks = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if any(check(one) for check in checks for one in (fn, _call(fn))):
        raise TypeError(f"{where} is a generator; return a list instead of yielding")


def _call(fn: Any) -> Any:
    return getattr(of_class(fn), "__call__", None)  # noqa: B004


def _checked_pools(pools: Mapping[str, int], where: str) -> dict[str, int]:
    for name, limit in pools.items():
        check_name(f"{where}: the name of a pool", name)
        check_limit(f"{where}: pool {name!r}", limit)
    return dict(pools)


def _checked_patches(patches: Iterable[str], where: str) -> frozenset[str]:
    if isinstance(patches, str):
        raise TypeError(f"{where}: patches must be a sequence of ids, not the string {patches!r}")
    ids: list[str] = list(patches)
    for one in ids:
        check_name(f"{where}: the id of a patch", one)
        if ids.count(one) > 1:
            raise ValueError(f"{where}: patch {one!r} is given twice")
    return frozenset(ids)


D = TypeVar("D", FlowDefinition, StepDefinition)


def _rebound(
    known: D,
    bind: Callable[[Callable[..., Any]], Callable[..., Any]],
    define: Callable[[str, Callable[..., Any]], D],
) -> D:
    fn = bind(known.fn)
    return known if fn is known.fn else define(known.name, fn)


def _find(sort: str, wanted: str | Callable[..., Any], known: Mapping[str, D], app: str) -> D:
    if isinstance(wanted, str):
        if wanted in known:
            return known[wanted]
        name = wanted
    else:
        for one in known.values():
            if one.fn == wanted:
                return one
        name = getattr(wanted, "__name__", repr(wanted))
    raise ValueError(f"no {sort} {name!r} in app {app!r} {choices(sort, name, known)}")


__all__ = [
    "AppDefinition",
    "Flow",
    "FlowDefinition",
    "StepDefinition",
    "Target",
    "check_app_name",
    "step_policy",
]
