"""Build every published package and prove that what would be published works.

For each package: its sdist and wheel are built, the wheel is built again from the sdist and must
be equal byte for byte, both must carry what they should and no tests, and the wheel must install
and import in a clean environment, core alone in one where nothing else is installed. `hatch build`
notices none of these faults. Exits 1 at the first one.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shell import ROOT, CheckError, fresh_python, run

PACKAGES = ("core", "temporal", "dbos", "contracts")


@dataclass(frozen=True, slots=True)
class Dists:
    """The files built for one package."""

    package: str
    sdist: Path
    wheel: Path


def build(source: Path, out: Path, kind: str) -> Path:
    """Build one archive of `source` (`kind` is sdist or wheel) into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    before = set(out.iterdir())
    run("uv", "build", f"--{kind}", "--out-dir", out, "--python", sys.executable, "--quiet", source)
    made = [path for path in set(out.iterdir()) - before if path.suffix in {".gz", ".whl"}]
    if len(made) != 1:
        raise CheckError(f"{source}: building a {kind} made {len(made)} files, not one")
    return made[0]


def build_both_ways(package: str, root: Path, out: Path, scratch: Path) -> Dists:
    """Build sdist and wheel, and require that the wheel built from the sdist equals it."""
    source = root / "packages" / package
    sdist = build(source, out, "sdist")
    wheel = build(source, out, "wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch / package, filter="data")
    (unpacked,) = (scratch / package).iterdir()
    again = build(unpacked, scratch / f"{package}-again", "wheel")
    if again.read_bytes() != wheel.read_bytes():
        raise CheckError(f"{wheel.name}: the wheel built from the sdist differs")
    return Dists(package, sdist, wheel)


def check_content(dists: Dists) -> None:
    """Require LICENSE, README and `py.typed`, and refuse tests and a stray namespace file."""
    with tarfile.open(dists.sdist) as archive:
        source = [PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()]
    with zipfile.ZipFile(dists.wheel) as archive:
        wheel = [PurePosixPath(name) for name in archive.namelist()]
    typed = f"iworkflow/{dists.package}/py.typed"
    _require(dists.sdist, source, "LICENSE", "README.md", "pyproject.toml", f"src/{typed}")
    _require(dists.wheel, wheel, typed)
    if not any(path.name == "LICENSE" for path in wheel):
        raise CheckError(f"{dists.wheel.name}: carries no LICENSE")
    for archive_path, names in ((dists.sdist, source), (dists.wheel, wheel)):
        _refuse(archive_path, names)


def _require(archive: Path, names: list[PurePosixPath], *wanted: str) -> None:
    missing = [name for name in wanted if PurePosixPath(name) not in names]
    if missing:
        raise CheckError(f"{archive.name}: carries no {', '.join(missing)}")


def _refuse(archive: Path, names: list[PurePosixPath]) -> None:
    for name in names:
        if "tests" in name.parts or name.name.startswith("test_") or name.name == "conftest.py":
            raise CheckError(f"{archive.name}: carries the test file {name}")
        if name.parts[-2:] == ("iworkflow", "__init__.py"):
            raise CheckError(f"{archive.name}: {name} hides the other packages")


def check_install(dists: Dists, wheels: Path, folder: Path) -> None:
    """Install the wheel as a user would, siblings from `wheels`, and import it."""
    python = fresh_python(folder)
    quiet = ("--quiet", "--python", python, "--find-links", wheels)
    run("uv", "pip", "install", *quiet, dists.wheel)
    run("uv", "pip", "check", "--python", python)
    run(python, "-I", "-W", "error::ImportWarning", "-c", f"import iworkflow.{dists.package}")


def check_core_alone(core: Dists, folder: Path) -> None:
    """Import core where nothing else is installed; require that it starts no thread."""
    python = fresh_python(folder)
    run(
        "uv", "pip", "install", "--quiet", "--python", python, "--no-deps", "--no-index", core.wheel
    )
    installed = run("uv", "pip", "list", "--format", "freeze", "--python", python).split()
    if len(installed) != 1:
        raise CheckError(f"core alone was to be installed, and found {installed}")
    run(
        python,
        "-I",
        "-c",
        "import iworkflow.core, threading as t; assert t.active_count() == 1, t.enumerate()",
    )


def check_all(root: Path, out: Path) -> None:
    """Build and check all packages; leave their archives in `out`."""
    with tempfile.TemporaryDirectory(prefix="iworkflow-dists-") as name:
        scratch = Path(name)
        built = [build_both_ways(package, root, out, scratch) for package in PACKAGES]
        for dists in built:
            check_content(dists)
            check_install(dists, out, scratch / f"venv-{dists.package}")
            print(f"{dists.wheel.name}: equal from its sdist, installs, imports")
        check_core_alone(built[0], scratch / "venv-alone")
        print("iworkflow.core imports where nothing else is installed")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; give its exit code."""
    parser = argparse.ArgumentParser(prog="check_dists.py", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the archives go")
    options = parser.parse_args(arguments)
    try:
        check_all(ROOT, _emptied(options.out))
    except CheckError as error:
        print(f"check_dists: {error}", file=sys.stderr)
        return 1
    return 0


def _emptied(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]:
        old.unlink()
    return folder.resolve()


if __name__ == "__main__":
    sys.exit(main())
