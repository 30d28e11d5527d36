"""The engine under test, and what a scenario gets of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from iworkflow_lab.engines import ENGINES
from iworkflow_lab.engines.base import Arena, EngineLab
from iworkflow_lab.scenarios import scenario_of, scenarios, select
from iworkflow_lab.suite.shared import Shared


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the lab's own selection."""
    parser.addoption("--engine", action="append", choices=sorted(ENGINES), default=None)
    parser.addoption("--scenarios", default=None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every scenario on every engine asked for."""
    if "engine_lab" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--engine") or list(ENGINES)
        metafunc.parametrize("engine_lab", chosen, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what is selected; a test whose engine declares a gap has to fail."""
    chosen = {scenario.id for scenario in select(config.getoption("--scenarios"))}
    kept = [item for item in items if scenario_of(item.name) in chosen]
    dropped = [item for item in items if item not in kept]
    config.hook.pytest_deselected(items=dropped)
    items[:] = kept
    for item in items:
        _mark(item)


def _mark(item: pytest.Item) -> None:
    id = scenario_of(item.name)
    assert id is not None
    assert isinstance(item, pytest.Function)
    engine = str(item.callspec.params["engine_lab"])
    item.user_properties += [("scenario", id), ("engine", engine)]
    gaps = [ENGINES[engine].declared.get(need) for need in scenarios()[id].needs]
    for reason in filter(None, gaps):
        item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        item.user_properties.append(("gap", reason))


@pytest.fixture(scope="session")
def engine_lab(request: pytest.FixtureRequest) -> Iterator[EngineLab]:
    """One engine, its server running."""
    lab = ENGINES[request.param]
    with lab.server():
        yield lab


@pytest.fixture(scope="module")
async def shared(
    engine_lab: EngineLab, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Shared]:
    """A store for the scenarios of a module: their runs need ids of their own."""
    async with engine_lab.arena(tmp_path_factory.mktemp("shared")) as arena:
        yield Shared(arena)


@pytest.fixture
async def arena(engine_lab: EngineLab, tmp_path: Path) -> AsyncIterator[Arena]:
    """A fresh store, a client and the power to start workers."""
    async with engine_lab.arena(tmp_path) as arena:
        yield arena


@pytest.fixture
async def arena_alone(engine_lab: EngineLab, tmp_path: Path) -> AsyncIterator[Arena]:
    """Give the same over a server of its own, which may be restarted."""
    async with engine_lab.arena(tmp_path, alone=True) as arena:
        yield arena
