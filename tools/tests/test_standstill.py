"""A failed test is run again if the machine stood still in it, and for no other reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import time

real, runs = time.time, []


def test_it():
    runs.append(1)
    {body}
"""
STANDS_STILL = "time.time = lambda: real() + 5 * len(runs)"


def _run(folder: Path, body: str) -> str:
    shutil.copy(ROOT / "conftest.py", folder)
    (folder / "test_it.py").write_text(TESTS.format(body=body), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(folder)]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()[-1].strip("= ").partition(" in ")[0]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (f"{STANDS_STILL}; assert len(runs) == 2", "1 passed, 1 rerun"),
        (f"{STANDS_STILL}; assert not runs", "1 failed, 1 rerun"),
        (STANDS_STILL, "1 passed"),
        ("assert len(runs) == 2", "1 failed"),
    ],
    ids=["spoilt", "spoilt-twice", "passed", "failed"],
)
def test_a_rerun(tmp_path: Path, body: str, says: str) -> None:
    assert _run(tmp_path, body) == says
