"""The contracts of the modules that a command names."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from iworkflow.contracts.contract import WorkflowContract
from iworkflow.contracts.handles import AnyContract


class LoadError(Exception):
    """A module cannot be imported or has no contracts; the text names the remedy."""


def load_contracts(modules: Sequence[str]) -> list[AnyContract]:
    """Import the modules, from the current folder too, and return the contracts in them.

    A contract that several modules name is one.

    Raises:
        LoadError: a module fails to import or has no contract, or two contracts have one name.
    """
    found: dict[str, tuple[AnyContract, str]] = {}
    for name in modules:
        contracts = _contracts_in(_import(name))
        if not contracts:
            raise LoadError(
                f"module {name!r} has no contracts; make them there with "
                "define_workflow_contract, or name the module that does"
            )
        for one in contracts:
            other, place = found.setdefault(one.name, (one, name))
            if other is not one:
                raise LoadError(
                    f"two contracts are named {one.name!r}, in {place!r} and in {name!r}; "
                    "rename one"
                )
    return [one for one, _ in found.values()]


def _contracts_in(module: ModuleType) -> list[AnyContract]:
    values: list[Any] = list(vars(module).values())
    return [one for one in values if isinstance(one, WorkflowContract)]


def _import(name: str) -> ModuleType:
    if name.endswith(".py") or os.sep in name:
        dotted = name.removesuffix(".py").strip("./").replace(os.sep, ".")
        raise LoadError(f"{name!r} is a file; name it as a module, like {dotted}")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise LoadError(_no_module(name, error.name)) from None
        raise LoadError(_broken(name, error)) from error
    except (Exception, SystemExit) as error:
        raise LoadError(_broken(name, error)) from error


def _no_module(name: str, missing: str) -> str:
    part = "" if missing == name else f" (of {name!r})"
    return (
        f"no module {missing!r}{part}, in this folder or installed; run the command in the folder "
        "that holds it, or install its package"
    )


def _broken(name: str, error: BaseException) -> str:
    frames = [one for one in traceback.extract_tb(error.__traceback__) if _is_users(one.filename)]
    at = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"cannot import {name!r}: {type(error).__name__}: {error}{at}"


def _is_users(file: str) -> bool:
    folder = os.path.dirname(file)
    own = os.path.dirname(__file__)
    return not file.startswith("<") and folder != own and os.path.basename(folder) != "importlib"
