"""Test each adapter alone with core: `check_alone.py lowest` or `check_alone.py newest`.

Next to its siblings an adapter can import what it never declared. Here each one is installed into
a clean environment with core, its own dependencies at the lowest or the newest versions that it
allows, and its own tests are run there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from shell import ROOT, CheckError, fresh_python, run, show

RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
ADAPTERS = {"temporal": "[dev]", "dbos": "[embedded]", "contracts": ""}
TEST_TOOLS = (
    "attrs>=26",
    "hypothesis>=6.170",
    "jsonschema>=4.20",
    "pydantic>=2.14",
    "pytest>=9",
    "pytest-asyncio>=1.5",
    "pytest-rerunfailures>=16.7",
    "pytest-timeout>=2.4",
)


def check(adapter: str, resolution: str, folder: Path) -> None:
    """Install `adapter` and core into a clean environment and run the adapter's tests."""
    python = fresh_python(folder)
    install = ("uv", "pip", "install", "--quiet", "--python", python)
    run(*install, *TEST_TOOLS)
    packages = ROOT / "packages"
    own = f"{packages / adapter}{ADAPTERS[adapter]}"
    run(*install, "--resolution", RESOLUTIONS[resolution], f"{packages / 'core'}[codec]", own)
    print(f"== iworkflow-{adapter} alone with core, {resolution} versions", flush=True)
    show("uv", "pip", "list", "--quiet", "--python", python)
    show(python, "-m", "pytest", f"packages/{adapter}/tests")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; give its exit code."""
    parser = argparse.ArgumentParser(prog="check_alone.py", description=__doc__)
    parser.add_argument("resolution", choices=sorted(RESOLUTIONS))
    parser.add_argument("--only", choices=sorted(ADAPTERS), help="check one adapter")
    options = parser.parse_args(arguments)
    chosen = [options.only] if options.only else list(ADAPTERS)
    with tempfile.TemporaryDirectory(prefix="iworkflow-alone-") as scratch:
        try:
            for adapter in chosen:
                check(adapter, options.resolution, Path(scratch) / adapter)
        except CheckError as error:
            print(f"check_alone: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
