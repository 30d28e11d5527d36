"""How the lab sees an engine: where its workers run, how they die, what its store holds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Protocol

from iworkflow.core import Client
from iworkflow.core.steps import AttemptState
from iworkflow_lab.capabilities import Capability
from iworkflow_lab.effects import FOLDER, EffectLog
from iworkflow_lab.gates import opened

SILENCE = 1.5
"""Seconds after which the lab's workers hold a silent one for dead; 10 by default elsewhere."""


WORKER_LOG = "workers.log"
"""The file in an arena's folder into which its workers log."""


class Worker(Protocol):
    """A worker of one app."""

    @property
    def name(self) -> str:
        """Where it runs, for people."""
        ...

    async def kill(self) -> None:
        """SIGKILL, or what comes nearest to it, with a line in the effect log.

        Nothing of the worker runs when this returns.
        """
        ...

    async def leave(self) -> None:
        """SIGTERM, or what comes nearest to it; return once it has taken notice.

        `stop` or `done` then waits for its end.
        """
        ...

    async def stop(self) -> None:
        """Let it end in an orderly way, and wait for that."""
        ...

    async def freeze(self) -> None:
        """SIGSTOP, or what comes nearest to it: for its engine it is silent from now on."""
        ...

    async def thaw(self) -> None:
        """SIGCONT: it goes on where it was, and does not know."""
        ...

    async def done(self) -> None:
        """Wait for its end.

        Raises:
            Exception: what broke it.
        """
        ...


class Store(Protocol):
    """What an engine keeps, read behind its back."""

    async def steps(self, run: str) -> int:
        """Return how many steps of the run have a recorded outcome."""
        ...

    async def operations(self, run: str) -> int:
        """Return how many operations of any kind the run has recorded."""
        ...

    async def attempts(self, run: str) -> list[AttemptState]:
        """Return how far the steps of the run are that have failed or beaten, in order."""
        ...


class Arena:
    """A fresh store of one engine, its client, and the workers that a scenario starts.

    Args:
        folder: where the effect log and the gates are.
        client: a client of the store.
        store: what the store holds.
        engine: the engine's name among the installed ones.
        environment: the variables by which other processes find the store.
    """

    def __init__(
        self,
        folder: Path,
        client: Client,
        store: Store,
        *,
        engine: str,
        environment: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self.client = client
        self.store = store
        self.engine = engine
        self.environment = {**environment, FOLDER: str(folder)}
        self.log = EffectLog(folder / "effects.jsonl")

    async def worker(
        self,
        app: str,
        *,
        silence: float | None = SILENCE,
        grace: float | None = None,
        max_payload: int | None = None,
    ) -> Worker:
        """Start a worker of `module:attribute` and return once it takes runs.

        Args:
            app: where the definition is.
            silence: after how many seconds it takes over from a silent worker; None leaves the
                engine's own default.
            grace: for how many seconds steps may go on once it has to stop; None leaves the
                lab's own default.
            max_payload: the worker's limit of a value; None leaves the default.
        """
        raise NotImplementedError

    def another_client(self, *, max_payload: int) -> Client:
        """Return a client with a limit of its own, for the caller to close."""
        raise NotImplementedError

    async def owner(self, run: str) -> Worker:
        """Return the worker that has the run now."""
        raise NotImplementedError

    async def ruin(self) -> None:
        """Take from the workers, for good, what they cannot work without."""
        raise NotImplementedError

    async def restart_server(self) -> None:
        """Stop the server as a crash would, and start it again with what it has recorded.

        The arena must have been asked for `alone`.
        """
        raise NotImplementedError("the engine has no server")

    def printed(self) -> str:
        """Return what the workers have logged so far."""
        return (self.folder / WORKER_LOG).read_text()

    def let_go(self, name: str) -> None:
        """Let go what waits in a gate: a call, `run.key` or `run.all`."""
        opened(self.folder, name)


class EngineLab(Protocol):
    """One engine under test, by the name that `--engine` takes."""

    @property
    def name(self) -> str:
        """The name in the matrix."""
        ...

    @property
    def declared(self) -> Mapping[Capability, str]:
        """What the engine lacks, with the reason."""
        ...

    def server(self) -> AbstractContextManager[None]:
        """Hold what all arenas share, for one run of the lab."""
        ...

    def arena(self, folder: Path, *, alone: bool = False) -> AbstractAsyncContextManager[Arena]:
        """Give a fresh store; whatever was started in it is gone at the end.

        Args:
            folder: where the effect log and the gates will be.
            alone: whether the store needs a server of its own, which may be restarted.
        """
        ...
