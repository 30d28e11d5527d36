"""Find the app that a command names as `pkg.mod:app`."""

from __future__ import annotations

import os
import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from operator import attrgetter
from types import ModuleType

from iworkflow.core.cli.problems import Problem
from iworkflow.core.definition import AppDefinition


def load_app(place: str) -> AppDefinition:
    """Import the module, from the current folder too, and return the app in it.

    Raises:
        Problem: there is no such module or app, or importing the module fails.
    """
    name, _, attribute = place.partition(":")
    if not name or not attribute:
        raise Problem(f"{place!r} names no app; write it as module:name, like pkg.mod:app")
    if name.endswith(".py") or os.sep in name:
        dotted = name.removesuffix(".py").strip("./").replace(os.sep, ".")
        raise Problem(f"{name!r} is a file; name it as a module, like {dotted}:{attribute}")
    module = _import(name)
    try:
        app = attrgetter(attribute)(module)
    except AttributeError:
        raise Problem(f"module {name!r} has no {attribute!r}{_hint(module, attribute)}") from None
    if not isinstance(app, AppDefinition):
        kind = type(app).__name__
        hint = _hint(module, attribute)
        raise Problem(f"{place!r} is of type {kind!r}, not an AppDefinition{hint}")
    return app


def _import(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise Problem(_no_module(name, error.name)) from None
        raise Problem(_broken(name, error)) from error
    except (Exception, SystemExit) as error:
        raise Problem(_broken(name, error)) from error


def _no_module(name: str, missing: str) -> str:
    part = "" if missing == name else f" (of {name!r})"
    return (
        f"no module {missing!r}{part}, in this folder or installed; run the command in the folder "
        "that holds it, or install its package"
    )


def _broken(name: str, error: BaseException) -> str:
    frames = [one for one in traceback.extract_tb(error.__traceback__) if _is_file(one.filename)]
    at = f" ({frames[-1].filename}:{frames[-1].lineno})" if len(frames) > 1 else ""
    return f"cannot import {name!r}: {type(error).__name__}: {error}{at}"


def _is_file(name: str) -> bool:
    return not name.startswith("<") and os.path.basename(os.path.dirname(name)) != "importlib"


def _hint(module: ModuleType, attribute: str) -> str:
    apps = sorted(name for name, value in vars(module).items() if isinstance(value, AppDefinition))
    if not apps:
        return " (it defines no app)"
    close = get_close_matches(attribute, apps, n=1)
    suggestion = f"; did you mean {close[0]!r}?" if close else ""
    return f" (apps there: {', '.join(map(repr, apps))}){suggestion}"
