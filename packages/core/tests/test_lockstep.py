"""A package refuses to work with a core of another version, and says how to mend it."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from iworkflow.core import lockstep


def _installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    known = {name.replace("_", "-"): version for name, version in versions.items()}

    def version(distribution: str) -> str:
        if distribution not in known:
            raise metadata.PackageNotFoundError(distribution)
        return known[distribution]

    monkeypatch.setattr(metadata, "version", version)


def test_one_version_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal versions are accepted without a word."""
    _installed(monkeypatch, iworkflow_core="0.4.0", iworkflow_dbos="0.4.0")
    lockstep.require_core("iworkflow-dbos")


@pytest.mark.parametrize("core", ["0.3.9", "0.4.1", "0.4.0rc1"])
def test_another_core_is_refused(monkeypatch: pytest.MonkeyPatch, core: str) -> None:
    """Any other version, older or newer, is refused; both versions and the command are named."""
    _installed(monkeypatch, iworkflow_core=core, iworkflow_dbos="0.4.0")
    with pytest.raises(RuntimeError) as caught:
        lockstep.require_core("iworkflow-dbos")
    assert str(caught.value) == (
        f"iworkflow-dbos 0.4.0 does not work with iworkflow-core {core}: both must be of one "
        f'version; run: pip install "iworkflow-dbos=={core}"'
    )


def test_core_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that is only on the path cannot be checked: refused, with the command."""
    _installed(monkeypatch, iworkflow_dbos="0.4.0")
    with pytest.raises(RuntimeError) as caught:
        lockstep.require_core("iworkflow-dbos")
    assert str(caught.value) == (
        "iworkflow-core is on the path but not installed, so iworkflow-dbos (0.4.0) cannot check "
        'that it fits iworkflow-core (unknown); run: pip install "iworkflow-core==0.4.0"'
    )


def test_package_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is only on the path is refused too, with the command."""
    _installed(monkeypatch, iworkflow_core="0.4.0")
    with pytest.raises(RuntimeError, match=r'run: pip install "iworkflow-dbos==0\.4\.0"$'):
        lockstep.require_core("iworkflow-dbos")


def test_neither_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing installed the command has no version to pin."""
    _installed(monkeypatch)
    with pytest.raises(RuntimeError, match=r'run: pip install "iworkflow-dbos"$'):
        lockstep.require_core("iworkflow-dbos")


def _fake_core(site: Path, version: str) -> None:
    folder = site / f"iworkflow_core-{version}.dist-info"
    folder.mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: iworkflow-core\nVersion: {version}\n"
    (folder / "METADATA").write_text(metadata, encoding="utf-8")


@pytest.mark.parametrize("package", ["dbos", "temporal", "contracts"])
def test_import_of_each_package_refuses_another_core(package: str, tmp_path: Path) -> None:
    """Importing a package next to another core fails at once, in a real interpreter."""
    _fake_core(tmp_path, "0.1.0")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import iworkflow.{package}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    last = ran.stderr.strip().splitlines()[-1]
    assert last.startswith(f"RuntimeError: iworkflow-{package} ")
    assert last.endswith(f'run: pip install "iworkflow-{package}==0.1.0"')
