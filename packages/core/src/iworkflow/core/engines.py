"""Engines, found by name among the installed packages.

A package offers an engine through the entry-point group `iworkflow.engines`. The entry point's
name is the engine's, and its object is an `Engine` (an instance, or a class without arguments):

    [project.entry-points."iworkflow.engines"]
    memory = "iworkflow.core.memory:engine"
    dbos = "iworkflow.dbos:engine"

An engine may also have a method `dev()`, see `DevEngine`; `iworkflow dev` runs it. A server that
cannot be reached is a `ConnectionError` whose text names the server, the cause and the remedy:
the command line prints that text and nothing else.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    from iworkflow.core.client import Client
    from iworkflow.core.runtime import Runtime

GROUP = "iworkflow.engines"
VARIABLE = "IWORKFLOW_ENGINE"
MEMORY = "memory"

# Core's own engine is there without metadata too, as in a source tree on the path.
_BUILT_IN = EntryPoint(MEMORY, "iworkflow.core.memory:engine", GROUP)
_PACKAGES = {"dbos": "iworkflow-dbos", "temporal": "iworkflow-temporal"}


@runtime_checkable
class Engine(Protocol):
    """What an adapter offers under its name."""

    @property
    def name(self) -> str:
        """The name of the entry point."""
        ...

    def client(self, **settings: Any) -> Client:
        """Make a client; it connects at its first use or at `async with`.

        Args:
            settings: the engine's own settings, the same as of its `Client` class.
        """
        ...

    def runtime(self, **settings: Any) -> Runtime:
        """Make a runtime; it connects at its start.

        Args:
            settings: the engine's own settings, the same as of its `Runtime` class.
        """
        ...


@runtime_checkable
class DevEngine(Engine, Protocol):
    """An engine that can run a server of its own for development."""

    def dev(self) -> AbstractAsyncContextManager[str]:
        """Run the server inside an `async with`.

        The value is the text for whoever started it, of one or more lines: where the server is
        and which variables make a worker and a client use it. The server stops at the exit.
        """
        ...


def installed() -> dict[str, EntryPoint]:
    """Return the engines at hand by name, sorted; none of them is imported."""
    found = {MEMORY: _BUILT_IN} | {point.name: point for point in entry_points(group=GROUP)}
    return dict(sorted(found.items()))


def engine(name: str | None = None) -> Engine:
    """Find an engine.

    Without a name, `IWORKFLOW_ENGINE` names it. Is that unset or empty too, the only engine that
    is installed next to `memory` is taken; `memory`, which comes with core, is taken when it is
    named or when there is no other. Only the engine that is taken is imported.

    Args:
        name: the name of the engine.

    Raises:
        ValueError: no engine of the name is installed.
        RuntimeError: there are several and none is named, or the engine cannot be imported.
    """
    points = installed()
    asked, prefix = (name, "") if name else (os.environ.get(VARIABLE), f"{VARIABLE}: ")
    return _load(_named(asked, points, prefix) if asked else _only(points))


def _only(points: dict[str, EntryPoint]) -> EntryPoint:
    names = [name for name in points if name != MEMORY]
    if len(names) > 1:
        raise RuntimeError(
            f"several engines are installed ({_quoted(names)}); name one: "
            f'engine({names[0]!r}), "--engine {names[0]}" or {VARIABLE}={names[0]}'
        )
    return points[names[0] if names else MEMORY]


def _named(name: str, points: dict[str, EntryPoint], prefix: str) -> EntryPoint:
    if name in points:
        return points[name]
    message = f"{prefix}no engine {name!r} (installed: {_quoted(points)})"
    close = get_close_matches(name, {*points, *_PACKAGES}, n=1)
    if close and close[0] in points:
        message += f"; did you mean {close[0]!r}?"
    elif close:
        message += f'; run "pip install {_PACKAGES[close[0]]}"'
    else:
        packages = " or ".join(f'"pip install {package}"' for package in _PACKAGES.values())
        message += f"; run {packages}"
    raise ValueError(message)


def _load(point: EntryPoint) -> Engine:
    try:
        loaded = point.load()
        if isinstance(loaded, type):
            loaded = cast("type[Any]", loaded)()
    except Exception as error:
        raise RuntimeError(
            f"engine {point.name!r} of {_origin(point)} cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(loaded, Engine):
        raise RuntimeError(
            f"engine {point.name!r} of {_origin(point)} cannot be loaded: "
            f"{point.value!r} is no Engine: it needs a name, client() and runtime()"
        )
    return loaded


def _origin(point: EntryPoint) -> str:
    dist = point.dist
    return f"{dist.name} {dist.version}" if dist else "iworkflow-core"


def _quoted(names: list[str] | dict[str, EntryPoint]) -> str:
    return ", ".join(map(repr, names))
