"""The contracts package holds its place: it imports, and says that contracts are not in it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import iworkflow.contracts


def test_a_name_of_the_package_is_refused_with_the_way_out() -> None:
    """Asking for a contract says that this release has none, and what to use instead."""
    with pytest.raises(ImportError) as caught:
        importlib.import_module("iworkflow.contracts").WorkflowContract  # noqa: B018
    assert str(caught.value) == (
        "iworkflow-contracts 0.4.0 has no 'WorkflowContract': contracts are not in this release; "
        "share a typed Target between packages until they are"
    )


def test_a_private_name_is_plainly_missing() -> None:
    """What tools probe for (`hasattr`) is answered as by any module."""
    assert not hasattr(iworkflow.contracts, "_private")


def test_the_command_says_so_and_exits_2(tmp_path: Path) -> None:
    """The installed command writes nothing and exits as on any usage error."""
    command = Path(sys.executable).with_name("iworkflow-contracts")
    ran = subprocess.run(
        [command, "pkg.mod"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ran.returncode == 2
    assert ran.stderr == "iworkflow-contracts 0.4.0: contracts are not in this release\n"
    assert list(tmp_path.iterdir()) == []
