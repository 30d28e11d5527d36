"""Worker processes: started, waited for, killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

START_SECONDS = 60.0
STOP_SECONDS = 20.0
_NO_CHANGE: Mapping[str, str] = {}


class WorkerDied(RuntimeError):
    """A worker process ended by itself."""


class Process:
    """One worker process; what it prints goes into a file next to the effect log."""

    def __init__(self, process: asyncio.subprocess.Process, output: Path) -> None:
        self._process = process
        self.output = output

    @classmethod
    async def start(
        cls,
        arguments: Sequence[str],
        *,
        output: Path,
        environment: Mapping[str, str] = _NO_CHANGE,
    ) -> Process:
        """Start `python -m` with these arguments and return once it prints `ready`.

        Raises:
            WorkerDied: it ended, or was not ready in time; the message has what it printed.
        """
        worker = await cls.run(arguments, output=output, environment=environment)
        await worker._ready(arguments)
        return worker

    @classmethod
    async def run(
        cls,
        arguments: Sequence[str],
        *,
        output: Path,
        environment: Mapping[str, str] = _NO_CHANGE,
    ) -> Process:
        """Start `python -m` with these arguments."""
        with output.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        return cls(process, output)

    async def _ready(self, arguments: Sequence[str]) -> None:
        line = ""
        try:
            line = await self.line(START_SECONDS)
        finally:
            if line != "ready":
                await self.kill()
        if line != "ready":
            raise WorkerDied(f"{' '.join(arguments)} did not start:\n{self._tail()}")

    async def line(self, seconds: float) -> str:
        """Return the next line that it prints; empty once it has ended.

        Raises:
            TimeoutError: there was none in time.
        """
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), seconds)
        return line.decode().strip()

    def _tail(self) -> str:
        return self.output.read_text()[-4000:]

    @property
    def name(self) -> str:
        """The process id."""
        return str(self._process.pid)

    async def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._signal(signal.SIGKILL)
        await self._gone()

    def freeze(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    async def leave(self) -> None:
        """SIGTERM; return once it says that it stops.

        Raises:
            WorkerDied: it did not say so.
        """
        self._signal(signal.SIGTERM)
        line = await self.line(STOP_SECONDS)
        if line != "stops":
            raise WorkerDied(f"worker {self.name} printed {line!r} on SIGTERM:\n{self._tail()}")

    async def stop(self) -> None:
        """SIGTERM; SIGKILL and an error if it does not end in time.

        Raises:
            WorkerDied: it had to be killed, or ended with an error.
        """
        self._signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._gone(), STOP_SECONDS)
        except TimeoutError:
            await self.kill()
            raise WorkerDied(f"worker {self.name} did not stop on SIGTERM") from None
        self._check_code()

    async def ended(self) -> None:
        """Wait until it ends by itself.

        Raises:
            WorkerDied: it ended with an error.
        """
        await self._gone()
        self._check_code()

    def _check_code(self) -> None:
        code = self._process.returncode
        if code != 0:
            raise WorkerDied(f"worker {self.name} ended with {code}:\n{self._tail()}")

    def _signal(self, number: signal.Signals) -> None:
        # Not by the process object: it would reap the child behind the event loop's back.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _gone(self) -> None:
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
