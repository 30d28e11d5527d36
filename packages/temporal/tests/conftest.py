"""A Temporal server of the tests' own, and workers in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from iworkflow.temporal import TemporalClient, dev  # noqa: E402 - the flows come first

WORKER = HERE / "worker_process.py"
_count = itertools.count()


def _free_port() -> int:
    """A port of this host that nobody listens at, and no outgoing connection is given."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as taken, contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="session")
def server() -> Generator[str]:
    """The address of a server that lives as long as the session."""
    port = _free_port()
    process = subprocess.Popen(
        dev.command(port), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 30
        while not asyncio.run(dev.serves(port)):
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server serves nobody"
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def port() -> int:
    """A port for a server of the test's own."""
    return _free_port()


@pytest.fixture
def app_name() -> str:
    """An app's name that no other test has."""
    return f"app-{os.getpid()}-{next(_count)}"


@pytest.fixture
async def client(server: str) -> AsyncGenerator[TemporalClient]:
    """A client on the tests' server."""
    async with TemporalClient(server) as client:
        yield client


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
async def spawn(server: str, app_name: str, tmp_path: Path) -> AsyncGenerator[Spawn]:
    """Start worker processes of the app; those that are left at the end are killed."""
    workers: list[Worker] = []

    async def start(**variables: str) -> Worker:
        environment = {
            **os.environ,
            "TEMPORAL_ADDRESS": server,
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
