"""Temporal's sandbox around the modules that define flows; everything else passes through.

The sandbox imports those modules anew for each run and refuses them what does not replay, such
as the clock. Whatever else they use is the copy outside, so that a class is one class. A package
that holds a module of flows is stood in for by a copy of its module object: its own names are
those outside, and its modules of flows are the ones inside.

A flow in `__main__`, or one defined inside of a function, cannot be imported again: it passes
through too.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, cast

from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker.workflow_sandbox import (
    RestrictedWorkflowAccessError,
    SandboxedWorkflowRunner,
    SandboxRestrictions,
)

from iworkflow.core.definition import AppDefinition
from iworkflow.core.errors import Failure
from iworkflow.temporal.parking import Ledger, WatchedInstance
from iworkflow.temporal.settings import Tuning

log = logging.getLogger("iworkflow.temporal")


@dataclass(frozen=True, slots=True)
class Hosted:
    """An app as a worker hosts it."""

    app: AppDefinition
    tuning: Tuning
    modules: frozenset[str]
    """The modules that the sandbox imports anew."""
    packages: Mapping[str, ModuleType]
    """The packages that hold those modules, outermost first: as they are outside."""
    began: float = field(default_factory=time.time)
    """When the worker started, in seconds since the epoch."""
    ledger: Ledger = field(default_factory=Ledger)

    @classmethod
    def of(cls, app: AppDefinition, tuning: Tuning) -> Hosted:
        """Look at an app; warns of flows that pass through."""
        modules = _modules(app)
        names = {package for module in modules for package in _packages(module)} - modules
        packages = {name: sys.modules[name] for name in sorted(names)}
        return cls(app, tuning, modules, packages)


_loading: ContextVar[Hosted] = ContextVar("iworkflow_temporal_loading")


def loading() -> Hosted:
    """Return what the sandbox is being filled for."""
    return _loading.get()


def _modules(app: AppDefinition) -> frozenset[str]:
    modules: set[str] = set()
    for flow in app.flows.values():
        reason = _unloadable(flow.fn)
        if reason is None:
            modules.add(flow.fn.__module__)
        else:
            log.warning(
                "flow %r %s: it runs outside of Temporal's sandbox, which then refuses it "
                "nothing; move it into a module of its own",
                flow.name,
                reason,
            )
    return frozenset(modules)


def _unloadable(fn: Any) -> str | None:
    module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if module == "__main__":
        return "is defined in __main__"
    if module is None or name is None or "<locals>" in name:
        return "is defined inside of a function"
    if _find(sys.modules.get(module), name) is not fn:
        return f"is not {name!r} of module {module!r}"
    return None


def restrictions(hosted: Hosted) -> SandboxRestrictions:
    """Pass everything through but the modules of flows.

    Temporal warns of `asyncio.wait` and `as_completed`; in the flow loop they replay. It wraps the
    classes of `datetime`, which then are no types that a value can be read as. It lets a module
    read the clock while it is imported, which is once for each run and each replay.
    """
    default = SandboxRestrictions.default
    members = default.invalid_module_members
    children = {name: one for name, one in members.children.items() if name not in _REAL}
    for name in ("time", "uuid"):
        children[name] = replace(children[name], only_runtime=False)
    return replace(
        default,
        passthrough_modules=_AllBut([*hosted.modules, *hosted.packages]),
        invalid_module_members=replace(members, children=children),
    )


_REAL = ("asyncio", "datetime")
"""Modules whose members are not wrapped."""


class _AllBut(set[str]):
    """A set that holds every name but those it is made of."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self._names = frozenset(names)

    def __contains__(self, name: object) -> bool:
        return name not in self._names


@dataclass(frozen=True)
class HostRunner(SandboxedWorkflowRunner):
    """Temporal's runner, which knows what to load into the sandbox."""

    hosted: Hosted | None = None

    @classmethod
    def of(cls, hosted: Hosted) -> HostRunner:
        """Make the runner of a worker."""
        return cls(restrictions=restrictions(hosted), hosted=hosted)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Make the sandbox of one run."""
        assert self.hosted is not None
        token = _loading.set(self.hosted)
        try:
            inner = super().create_instance(det)
            return cast("WorkflowInstance", WatchedInstance(inner, self.hosted.ledger))
        finally:
            _loading.reset(token)


def load(hosted: Hosted) -> AppDefinition:
    """Import the modules of the flows and return the app over them. Called in the sandbox."""
    for package in hosted.packages:
        sys.modules[package] = _Package(sys.modules, hosted, package)
    for module in sorted(hosted.modules):
        __import__(module, fromlist=["__name__"])
    return hosted.app.rebound(_bind(hosted))


def _bind(hosted: Hosted) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def bind(fn: Callable[..., Any]) -> Callable[..., Any]:
        if getattr(fn, "__module__", None) not in hosted.modules:
            return fn
        found = _find(sys.modules[fn.__module__], fn.__qualname__)
        return fn if found is None else found

    return bind


def _find(module: ModuleType | None, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


class _Package(ModuleType):
    """A package inside of the sandbox: its own names, and modules of flows loaded there.

    A name of the package that comes from a module of flows is looked up in the copy inside.
    """

    def __init__(self, inside: Any, hosted: Hosted, name: str) -> None:
        super().__init__(name)
        outside = hosted.packages[name]
        kept = {key: value for key, value in vars(outside).items() if not _is_hosted(hosted, value)}
        self.__dict__.update(kept)
        moved = {
            key: value
            for key, value in vars(outside).items()
            if key not in kept and not isinstance(value, ModuleType)
        }
        self.__dict__["_iworkflow"] = (inside, moved)

    def __getattr__(self, name: str) -> Any:
        inside, moved = self.__dict__["_iworkflow"]
        value = moved.get(name)
        if value is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        __import__(value.__module__, fromlist=["__name__"])
        return _find(inside[value.__module__], value.__qualname__)


def _is_hosted(hosted: Hosted, value: object) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ in hosted.modules or value.__name__ in hosted.packages
    return (
        getattr(value, "__module__", None) in hosted.modules
        and getattr(value, "__qualname__", None) is not None
    )


def _packages(module: str) -> Iterator[str]:
    parent = module.rpartition(".")[0]
    while parent:
        yield parent
        parent = parent.rpartition(".")[0]


def refusal(hosted: Hosted, error: BaseException) -> str:
    """Tell what the sandbox could not load: the module, the call, and the remedy."""
    files = {getattr(sys.modules.get(name), "__file__", None): name for name in hosted.modules}
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
    where = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    module = files.get(frames[-1].filename) if frames else ", ".join(sorted(hosted.modules))
    if isinstance(error, RestrictedWorkflowAccessError):
        what = f"uses {_called(error.qualified_name)} when it is imported"
        remedy = "move that into a step, or into a module that defines no flows"
    else:
        what = f"cannot be imported: {type(error).__name__}: {error}"
        remedy = "move what fails into a module that defines no flows"
    return f"{where}flow module {module!r} {what}; Temporal's sandbox refuses that; {remedy}"


def explained(error: BaseException, modules: Collection[str]) -> BaseException:
    """Say of a call that the sandbox refused where it is, and what a flow does instead.

    The line is the innermost one in the modules that define flows.
    """
    if not isinstance(error, RestrictedWorkflowAccessError):
        return error
    lines = [
        f"{os.path.basename(frame.f_code.co_filename)}:{number}: "
        for frame, number in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") in modules
    ]
    where = lines[-1] if lines else ""
    call = _called(error.qualified_name)
    remedy = _REMEDIES.get(call.partition(".")[0], "move it into a step")
    text = f"{where}{call} in a flow is not replay-stable; {remedy}"
    return Failure(text, type=type(error).__name__)


_REMEDIES = {
    "time": 'use "await ctx.now()"',
    "datetime": 'use "await ctx.now()"',
    "random": "use ctx.random",
    "uuid": "use ctx.uuid4()",
}


def _called(name: str) -> str:
    """Write a name of the sandbox's as in code: `time.time.__call__` is `time.time()`."""
    plain, _, special = name.partition(".__")
    return f"{plain}()" if special == "call__" else plain
