"""The lockstep tool finds each way in which the packages can fall out of step."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "lockstep.py"
CARRIED = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of the workspace's members, as far as the tool looks at them."""
    shutil.copy(ROOT / "LICENSE", tmp_path)
    for project in [*ROOT.glob("packages/*/pyproject.toml"), ROOT / "lab" / "pyproject.toml"]:
        member = tmp_path / project.parent.relative_to(ROOT)
        member.mkdir(parents=True)
        for name in CARRIED:
            shutil.copy(project.parent / name, member)
        (member / "src").mkdir()
        (member / "src" / "py.typed").touch()
    return tmp_path


def _run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "--root", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_this_repository_is_in_step() -> None:
    """The members as they are committed pass."""
    ran = _run(ROOT, "check")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_set_moves_every_version_and_pin(workspace: Path) -> None:
    """After `set` no member names the old version, and the check passes."""
    ran = _run(workspace, "set", "1.2.3rc4")
    assert (ran.returncode, ran.stdout) == (0, "lockstep: 5 members at 1.2.3rc4\n")
    for project in workspace.glob("**/pyproject.toml"):
        assert "0.4.0" not in project.read_text(encoding="utf-8")


def test_set_refuses_what_is_no_version(workspace: Path) -> None:
    """A slip of the pen changes nothing."""
    assert "'latest' is no version" in _run(workspace, "set", "latest").stderr
    assert _run(workspace, "check").returncode == 0


def test_another_version(workspace: Path) -> None:
    """A member left behind is named with both versions."""
    _replace(workspace / "packages/dbos/pyproject.toml", 'version = "0.4.0"', 'version = "0.3.9"')
    ran = _run(workspace, "check")
    assert ran.returncode == 1
    assert ran.stderr == "iworkflow-dbos: version is 0.3.9, core's is 0.4.0\n"


@pytest.mark.parametrize("pin", [">=0.4.0", "", "==0.3.9"])
def test_a_loose_or_old_pin(workspace: Path, pin: str) -> None:
    """A pin that is not exact is named, also one with an extra."""
    _replace(workspace / "lab/pyproject.toml", "core[codec]==0.4.0", f"core[codec]{pin}")
    ran = _run(workspace, "check")
    assert ran.returncode == 1
    assert ran.stderr == f"iworkflow-lab: requires iworkflow-core{pin}, not iworkflow-core==0.4.0\n"


def test_no_pin_at_all(workspace: Path) -> None:
    """Every package but core must pin core."""
    _replace(workspace / "packages/temporal/pyproject.toml", '"iworkflow-core==0.4.0",', "")
    assert _run(workspace, "check").stderr == (
        "iworkflow-temporal: does not require iworkflow-core==0.4.0\n"
    )


def test_another_licence(workspace: Path) -> None:
    """Copies of the licence are equal to the root's."""
    (workspace / "packages/core/LICENSE").write_text("other", encoding="utf-8")
    assert (
        _run(workspace, "check").stderr == "iworkflow-core: its LICENSE differs from the root's\n"
    )


def test_a_linked_licence(workspace: Path) -> None:
    """A link would dangle in the sdist."""
    licence = workspace / "packages/core/LICENSE"
    licence.unlink()
    licence.symlink_to(workspace / "LICENSE")
    assert "iworkflow-core: has no LICENSE file of its own" in _run(workspace, "check").stderr


def test_a_stray_namespace_file(workspace: Path) -> None:
    """`iworkflow/__init__.py` in one package would hide the others."""
    stray = workspace / "packages/core/src/iworkflow/__init__.py"
    stray.parent.mkdir()
    stray.touch()
    assert _run(workspace, "check").stderr.startswith(
        "packages/core/src/iworkflow/__init__.py: hides the other packages"
    )
