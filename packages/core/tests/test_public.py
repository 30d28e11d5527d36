"""What `iworkflow.core` exports, and what importing it does not do."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import iworkflow.core as core

QUIET = """
import socket, sys, threading

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "iworkflow"}:
            raise ModuleNotFoundError(f"third-party import of {name}")

sys.meta_path.insert(0, Refused())

def refuse(*args):
    raise AssertionError("a connection was opened")

socket.socket.connect = refuse
import iworkflow.core
assert threading.active_count() == 1, threading.enumerate()
"""


def test_all_is_sorted_and_complete() -> None:
    """`__all__` is sorted, and is what the module has: no name more and no name less."""
    modules_aside = {
        name
        for name, value in vars(core).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert sorted(core.__all__) == core.__all__
    assert set(core.__all__) == modules_aside


def test_the_names_that_users_write() -> None:
    """The names of the documentation are there; the engine's side is not."""
    documented = {
        *("AppDefinition", "Context", "Failure", "FlowError", "Target", "heartbeat"),
        *("last_heartbeat", "engine", "non_retryable", "step_attempt", "step_info"),
        *("step_signal", "wait", "as_completed", "FlowDescription", "ChildHandle", "Handle"),
    }
    assert documented <= set(core.__all__)
    assert "DeadlinePassed" not in core.__all__


def test_every_export_has_a_docstring() -> None:
    """Every class and function that is exported says what it is."""
    lacking = [
        name
        for name in core.__all__
        if getattr(getattr(core, name), "__module__", "").startswith("iworkflow")
        and not getattr(core, name).__doc__
    ]
    assert lacking == []


def test_importing_is_quiet() -> None:
    """Importing core imports no third party, connects to nothing and starts no thread."""
    ran = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


WITHOUT_MSGSPEC = """
import asyncio, sys
sys.modules["msgspec"] = None
from iworkflow.core import AppDefinition, Target, engine

async def main():
    app = AppDefinition("office", flows=[])
    for use in (
        engine("memory").runtime().start(app),
        engine("memory").client().start(Target("office", "flow"), id="x"),
        engine("memory").client().__aenter__(),
    ):
        try:
            await use
        except ImportError as error:
            print(error)

asyncio.run(main())
"""


def test_an_engine_without_msgspec_says_so() -> None:
    """Without msgspec an engine is refused at its first use, with the command that adds it."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_MSGSPEC], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == 3 * [
        (
            "values are read back with msgspec, which is not installed; "
            'run: pip install "iworkflow-core[codec]"'
        )
    ]
