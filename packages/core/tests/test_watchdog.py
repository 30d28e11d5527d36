"""The watchdog names the run and the line that hold the event loop."""

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from iworkflow.core.watchdog import LoopWatch, Watchdog

RUN = SimpleNamespace(workflow_id="lead-7", flow="outreach")


def wait_in_a_library(records: list[logging.LogRecord]) -> None:
    while not records:
        threading.Event().wait(0.5)


@pytest.fixture
def watch() -> Iterator[LoopWatch]:
    watch = LoopWatch()
    watchdog = Watchdog(0.05, watch=watch)
    watchdog.start()
    yield watch
    watchdog.stop()


def hold_until(records: list[logging.LogRecord], count: int = 1, within: float = 10) -> None:
    end = time.monotonic() + within
    while len(records) < count and time.monotonic() < end:
        time.sleep(0.01)  # the line that holds


def test_names_the_run_and_the_line(watch: LoopWatch, caplog: pytest.LogCaptureFixture) -> None:
    """A burst over the threshold is warned of with run, flow, file, line and its text."""
    watch.enter(RUN)
    hold_until(caplog.records)
    watch.leave()
    (record,) = caplog.records
    message = record.getMessage()
    assert record.levelno == logging.WARNING
    assert record.name == "iworkflow.watchdog"
    assert f"{__file__}:" in message
    assert "flow 'outreach' of run 'lead-7' holds the event loop" in message
    assert "step" in message


def test_once_for_each_burst(watch: LoopWatch, caplog: pytest.LogCaptureFixture) -> None:
    """A burst that goes on is not warned of again; the next one is."""
    watch.enter(RUN)
    hold_until(caplog.records)
    hold_until(caplog.records, 2, within=0.3)
    watch.leave()
    assert len(caplog.records) == 1
    watch.enter(RUN)
    hold_until(caplog.records, 2)
    watch.leave()
    assert len(caplog.records) == 2


def test_many_short_bursts(caplog: pytest.LogCaptureFixture) -> None:
    """Short bursts of one run, one after another, are no hold."""
    watch = LoopWatch()
    watchdog = Watchdog(0.5, watch=watch)
    watchdog.start()
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        watch.enter(RUN)
        time.sleep(0.005)
        watch.leave()
    watchdog.stop()
    assert not caplog.records


def test_each_thread_on_its_own(watch: LoopWatch, caplog: pytest.LogCaptureFixture) -> None:
    """A short burst in one thread does not hide a long one in another."""
    done = threading.Event()

    def other() -> None:
        watch.enter("another run")
        done.wait(10)
        watch.leave()

    thread = threading.Thread(target=other)
    thread.start()
    while not any("another run" in record.getMessage() for record in caplog.records):
        watch.enter(RUN)
        time.sleep(0.005)
        watch.leave()
    done.set()
    thread.join()


def test_names_the_users_line_below_a_library(
    watch: LoopWatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Deep inside the standard library, the innermost line of the user's is named."""
    watch.enter(RUN)
    wait_in_a_library(caplog.records)
    watch.leave()
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith(f"{__file__}:")
    assert "in 'threading.Event().wait(0.5)', at " in message
    assert "threading.py:" in message


def test_no_line_outside_the_burst(watch: LoopWatch, caplog: pytest.LogCaptureFixture) -> None:
    """Code that merely called the loop is not blamed."""
    namespace = {"__name__": "iworkflow.core.flow.test", "time": time}
    code = "def run(watch, records):\n watch.enter('run 1')\n while not records: time.sleep(0.1)\n"
    exec(f"{code} watch.leave()", namespace)
    namespace["run"](watch, caplog.records)  # type: ignore[operator]
    (record,) = caplog.records
    assert record.getMessage().startswith("unknown line: run 1 holds")


def test_start_and_stop_twice() -> None:
    """Both may be called twice, and a stopped watchdog may be started again."""
    watchdog = Watchdog(0.05, watch=LoopWatch())
    before = threading.active_count()
    for _ in range(2):
        watchdog.start()
        watchdog.start()
        assert threading.active_count() == before + 1
        watchdog.stop()
        watchdog.stop()
        assert threading.active_count() == before


def test_import_starts_no_thread() -> None:
    """Importing the module starts no thread."""
    code = "import threading, iworkflow.core.watchdog; print(threading.active_count())"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "1"
