"""What the tools of this folder share: commands, and clean environments to try packages in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EPOCH = "1704067200"
"""The time stamped into archives, so that two builds of one source are equal."""


class CheckError(Exception):
    """What a tool checks is not right; the message says how."""


def environment() -> dict[str, str]:
    """Give the environment of commands: nothing is imported from the caller's own packages."""
    left_out = ("PYTHONPATH", "VIRTUAL_ENV")
    kept = {key: value for key, value in os.environ.items() if key not in left_out}
    return {**kept, "SOURCE_DATE_EPOCH": EPOCH}


def run(*command: str | Path) -> str:
    """Run a command quietly; give its output, or raise `CheckError` with it."""
    line = [str(part) for part in command]
    ran = subprocess.run(line, capture_output=True, text=True, check=False, env=environment())
    if ran.returncode:
        raise CheckError(f"{' '.join(line)}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def show(*command: str | Path) -> None:
    """Run a command with its output shown; raise `CheckError` where it fails."""
    line = [str(part) for part in command]
    if code := subprocess.run(line, check=False, env=environment(), cwd=ROOT).returncode:
        raise CheckError(f"{' '.join(line)}: exit {code}")


def fresh_python(folder: Path) -> Path:
    """Make an empty environment in `folder`; give its interpreter."""
    run("uv", "venv", "--quiet", "--no-project", "--python", sys.executable, folder)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
