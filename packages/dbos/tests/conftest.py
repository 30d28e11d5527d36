"""A Postgres of the tests' own, and workers in processes of their own."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from iworkflow.dbos import DbosClient, embedded

WORKER = Path(__file__).with_name("worker_process.py")
_count = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Generator[str]:
    """The URL of an embedded Postgres that lives as long as the session."""
    folder = Path(tempfile.mkdtemp(prefix="iwf-"))
    try:
        yield embedded.start(folder / "pg")
    finally:
        embedded.stop(folder / "pg")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def app_name() -> str:
    """An app's name that no other test has."""
    return f"app-{os.getpid()}-{next(_count)}"


@pytest.fixture
async def client(postgres: str) -> AsyncGenerator[DbosClient]:
    """A client on the tests' database."""
    async with DbosClient(postgres) as client:
        yield client


@pytest.fixture
async def connection(postgres: str) -> AsyncGenerator[Any]:
    """A connection to the tests' database, beside the client's."""
    connection: Any = await asyncpg.connect(postgres)
    try:
        yield connection
    finally:
        await connection.close()


@dataclass
class Worker:
    """A worker process that tells what it does, a line each."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)

    async def says(self, line: str, *, within: float = 30) -> None:
        """Wait until the worker has said the line."""
        assert self.process.stdout is not None
        async with asyncio.timeout(within):
            while line not in self.lines:
                said = await self.process.stdout.readline()
                assert said, f"the worker ended before it said {line!r}: {self.lines}"
                self.lines.append(said.decode().rstrip())

    def send(self, number: signal.Signals) -> None:
        """Send the worker a signal."""
        self.process.send_signal(number)

    async def kill(self) -> None:
        """Kill the worker and wait for its end."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


Spawn = Callable[..., Awaitable[Worker]]


@pytest.fixture
async def spawn(postgres: str, app_name: str, tmp_path: Path) -> AsyncGenerator[Spawn]:
    """Start worker processes of the app; those that are left at the end are killed."""
    workers: list[Worker] = []

    async def start(**variables: str) -> Worker:
        environment = {
            **os.environ,
            "DBOS_SYSTEM_DATABASE_URL": postgres,
            "TEST_APP": app_name,
            "TEST_EFFECTS": str(tmp_path / "effects"),
            **variables,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(WORKER), env=environment, stdout=asyncio.subprocess.PIPE
        )
        worker = Worker(process)
        workers.append(worker)
        await worker.says("ready")
        return worker

    try:
        yield start
    finally:
        for worker in workers:
            await worker.kill()


@pytest.fixture
def effects(tmp_path: Path) -> Callable[[], list[str]]:
    """What the steps of the worker processes did, in order."""

    def read() -> list[str]:
        path = tmp_path / "effects"
        return path.read_text().split() if path.exists() else []

    return read
