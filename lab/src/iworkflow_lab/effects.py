"""An append-only log of effects, outside every engine.

Steps of the lab write a line when they begin and one when they end; the lab writes one when it
kills a worker. What an engine believes is then compared with what happened.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

FOLDER = "IWORKFLOW_LAB_FOLDER"
"""Names the variable that tells a worker where the log and the gates of its arena are."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One line of the log."""

    what: str
    """`begin`, `end`, `cancel` or `kill`."""
    run: str = ""
    """The run; in a line of a kill, the only run that it met, or none for all of the worker."""
    step: str = ""
    key: str = ""
    call: str = ""
    """Unique for each execution of a step."""
    result: str = ""
    worker: str = ""
    """The id of the process."""
    at: float = field(default_factory=time.time)


class EffectLog:
    """The log of one arena, a file of JSON lines.

    Args:
        path: the file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: list[Effect] = []
        self._offset = 0

    def append(self, effect: Effect) -> None:
        """Write one line; lines of several processes never mix."""
        line = json.dumps(asdict(effect)).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def read(self, run: str | None = None) -> list[Effect]:
        """Return the lines so far; where a run is given, its own and the kills of whole workers."""
        self._read_on()
        return [e for e in self._seen if run is None or e.run == run or _kills_all(e)]

    def _read_on(self) -> None:
        if not self._path.exists() or self._path.stat().st_size == self._offset:
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, _, _ = file.read().rpartition(b"\n")
        if whole:
            self._offset += len(whole) + 1
            self._seen += [Effect(**json.loads(line)) for line in whole.split(b"\n")]

    def ended(self, run: str | None = None) -> Counter[tuple[str, str]]:
        """Count the executions that ended, by step and key."""
        return Counter((e.step, e.key) for e in self.read(run) if e.what == "end")

    def begun(self, run: str | None = None) -> Counter[tuple[str, str]]:
        """Count the executions that began, by step and key."""
        return Counter((e.step, e.key) for e in self.read(run) if e.what == "begin")

    def in_flight(self, run: str | None = None) -> list[Effect]:
        """Return the executions that go on, oldest first."""
        return _alive(self.read(run))

    def at_kill(self, run: str) -> tuple[list[Effect], list[Effect]]:
        """Return what had ended and what was in flight when a worker was last killed."""
        effects = self.read(run)
        last = max(i for i, effect in enumerate(effects) if effect.what == "kill")
        ended = [effect for effect in effects[:last] if effect.what == "end"]
        return ended, _alive(effects[:last])


def _alive(effects: list[Effect]) -> list[Effect]:
    alive: dict[str, Effect] = {}
    for effect in effects:
        match effect.what:
            case "begin":
                alive[effect.call] = effect
            case "kill":
                alive = {c: e for c, e in alive.items() if not _met(effect, e)}
            case _:
                alive.pop(effect.call, None)
    return list(alive.values())


def _kills_all(effect: Effect) -> bool:
    return effect.what == "kill" and not effect.run


def _met(kill: Effect, effect: Effect) -> bool:
    return kill.worker == effect.worker and kill.run in ("", effect.run)


def here() -> EffectLog:
    """Return the log of the arena in which this process works."""
    return EffectLog(folder() / "effects.jsonl")


def folder() -> Path:
    """Return the folder of the arena in which this process works."""
    return Path(os.environ[FOLDER])
