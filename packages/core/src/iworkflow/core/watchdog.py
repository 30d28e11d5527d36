"""A warning when flow code holds the event loop: with the run and the line.

The flow loop says when flow code begins and ends to run; a daemon thread, started by a runtime
and never at import, looks from time to time whether one burst goes on for too long.
"""

from __future__ import annotations

import linecache
import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

_log = logging.getLogger("iworkflow.watchdog")

_INSTALLED = ("site-packages", "dist-packages")


class _Burst:
    __slots__ = ("frame", "label", "reported")

    def __init__(self, label: object, frame: FrameType) -> None:
        self.label = label
        self.frame = frame
        self.reported = False


class LoopWatch:
    """Where flow loops say that flow code runs. Takes no lock and starts no thread.

    `enter` and `leave` stand around each burst of flow code, in the thread that runs it; each
    thread has at most one burst at a time.
    """

    __slots__ = ("_bursts",)

    def __init__(self) -> None:
        self._bursts: dict[int, _Burst] = {}

    def enter(self, label: object) -> None:
        """Flow code begins to run in this thread; `label` is its `RunInfo`, or a text."""
        self._bursts[threading.get_ident()] = _Burst(label, _caller())

    def leave(self) -> None:
        """It has stopped."""
        self._bursts.pop(threading.get_ident(), None)

    def bursts(self) -> dict[int, _Burst]:
        """What runs now, by thread."""
        return self._bursts.copy()


flow_watch = LoopWatch()
"""The watch of this process, shared by all flow loops."""


class Watchdog:
    """Warns, once for each burst, when flow code runs for longer than `threshold` seconds.

    Args:
        threshold: seconds.
        watch: whom to ask; the process's own by default.
    """

    def __init__(self, threshold: float = 1.0, *, watch: LoopWatch = flow_watch) -> None:
        self.threshold = threshold
        self._watch = watch
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. A second call changes nothing."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(
                target=self._run, name="iworkflow-watchdog", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for its end. A second call changes nothing."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stop.set()
            thread.join()

    def _run(self) -> None:
        since: dict[int, tuple[_Burst, float]] = {}
        while not self._stop.wait(self.threshold / 4):
            now = time.monotonic()
            seen = self._watch.bursts()
            since = {
                thread: (burst, _begin(since.get(thread), burst, now))
                for thread, burst in seen.items()
            }
            for thread, (burst, begin) in since.items():
                if now - begin >= self.threshold and not burst.reported:
                    burst.reported = True
                    _warn(thread, burst, now - begin)


def _caller() -> FrameType:
    return sys._getframe(2)  # pyright: ignore[reportPrivateUsage]


def _begin(known: tuple[_Burst, float] | None, burst: _Burst, now: float) -> float:
    return known[1] if known is not None and known[0] is burst else now


def _warn(thread: int, burst: _Burst, seconds: float) -> None:
    innermost = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
    frames = list(_frames(innermost, burst.frame))
    place = _place(frames)
    _log.warning(
        "%s: %s holds the event loop for more than %.1f s%s; move the work into a step",
        "unknown line" if place is None else _where(place),
        _name(burst.label),
        seconds,
        "" if place is None else _inside(place, frames[0]),
    )


def _frames(innermost: FrameType | None, end: FrameType) -> Iterator[FrameType]:
    """Yield the frames of the burst, from within to without."""
    frame = innermost
    while frame is not None and frame is not end:
        yield frame
        frame = frame.f_back


def _place(frames: list[FrameType]) -> FrameType | None:
    """Choose the line to name: the user's own, else a library's."""
    foreign = [frame for frame in frames if not _is_ours_or_stdlib(frame)]
    own = [frame for frame in foreign if not _is_installed(frame)]
    return next(iter(own or foreign), None)


def _is_ours_or_stdlib(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    top = module.partition(".")[0]
    return top == "iworkflow" or top in sys.stdlib_module_names


def _is_installed(frame: FrameType) -> bool:
    parts = Path(frame.f_code.co_filename).parts
    return any(name in parts for name in _INSTALLED)


def _where(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _inside(place: FrameType, innermost: FrameType) -> str:
    line = linecache.getline(place.f_code.co_filename, place.f_lineno).strip()
    told = f" in {line!r}" if line else f" in {place.f_code.co_name}()"
    return told if innermost is place else f"{told}, at {_where(innermost)}"


def _name(label: object) -> str:
    workflow_id = getattr(label, "workflow_id", None)
    if workflow_id is None:
        return str(label)
    return f"flow {getattr(label, 'flow', '?')!r} of run {workflow_id!r}"
