"""A test that the machine spoilt by standing still is run once more.

A virtual machine may be stopped for some seconds; its wall clock is then set forwards, and its
steady clock is not. To a server every worker was silent for as long, and every timer is due: it
rightly gives their work to others, which says nothing of the project. The report counts the reruns.
"""

from __future__ import annotations

import time
from functools import partial

import pytest

STOOD_STILL = 1.0
"""By how many seconds the two clocks part in a test that is not counted."""

_begun = pytest.StashKey[float]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("rerunfailures"):
        for item in items:
            item.add_marker(pytest.mark.flaky(reruns=1, condition=partial(_stood_still, item)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_begun] = _wall_ahead()


def _stood_still(item: pytest.Item) -> bool:
    return abs(_wall_ahead() - item.stash[_begun]) >= STOOD_STILL


def _wall_ahead() -> float:
    return time.time() - time.monotonic()
