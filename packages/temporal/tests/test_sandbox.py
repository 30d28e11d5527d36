"""Modules of flows in Temporal's sandbox: what it holds, what it refuses, and in which words."""

from __future__ import annotations

import importlib
import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from iworkflow.core import AppDefinition, Context
from iworkflow.temporal import TemporalClient, TemporalRuntime

_count = itertools.count()

Write = Callable[..., ModuleType]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write the files of a package of a fresh name (`PKG`), and import one of its modules."""
    name = f"shop_{next(_count)}"
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(module: str, **files: str) -> ModuleType:
        folder = tmp_path / name
        folder.mkdir()
        for file, text in {"__init__": "", **files}.items():
            (folder / f"{file}.py").write_text(text.replace("PKG", name))
        return importlib.import_module(f"{name}.{module}" if module else name)

    return make


async def outcome(server: str, app: AppDefinition, flow: str, *args: Any) -> Any:
    async with TemporalRuntime(server).running(app), TemporalClient(server) as client:
        handle = await client.start(app.target(flow), *args, id=f"{app.app}-r")
        return await handle.result(timeout=30)


async def refusal(server: str, app: AppDefinition) -> str:
    with pytest.raises(RuntimeError) as caught:
        await TemporalRuntime(server).start(app)
    return str(caught.value)


async def test_a_module_that_reads_the_clock(server: str, app_name: str, write: Write) -> None:
    """The worker does not start; the error names file and line, the call, and the remedy."""
    module = write(
        "flows",
        flows="import time\nT = 1\nBEGUN = time.time()\nasync def one(ctx):\n    return BEGUN\n",
    )
    text = await refusal(server, AppDefinition(app_name, flows=[module.one]))
    assert f"{module.__file__}:3: flow module '{module.__name__}' uses time.time()" in text
    assert "move that into a step, or into a module that defines no flows" in text


async def test_a_module_that_draws_a_number(server: str, app_name: str, write: Write) -> None:
    """So it is with random numbers."""
    module = write(
        "flows", flows="import random\nX = random.random()\nasync def one(ctx):\n    return X\n"
    )
    text = await refusal(server, AppDefinition(app_name, flows=[module.one]))
    assert f"flow module '{module.__name__}' uses random.random() when it is imported" in text


async def test_helpers_pass_through(server: str, app_name: str, write: Write) -> None:
    """What is not a module of flows is the one outside: it may do what it likes."""
    module = write(
        "flows",
        settings="import os, time\nHOME = os.environ['HOME']\nBEGUN = time.time()\n",
        flows="from PKG.settings import BEGUN\nasync def one(ctx):\n    return BEGUN\n",
    )
    begun = importlib.import_module(f"{module.__package__}.settings").BEGUN
    assert await outcome(server, AppDefinition(app_name, flows=[module.one]), "one") == begun


async def test_a_package_that_names_what_its_flows_define(
    server: str, app_name: str, write: Write
) -> None:
    """A class and a flow taken from the package or from the module are one, inside as outside."""
    module = write(
        "",
        __init__=(
            "from dataclasses import dataclass\n"
            "@dataclass\nclass Base:\n    n: int\n"
            "from PKG.first import Lead, one\n"
            "from PKG.second import two\n"
        ),
        first=(
            "from dataclasses import dataclass\nfrom PKG import Base\n"
            "@dataclass\nclass Lead:\n    name: str\n"
            "async def one(ctx, lead: Lead, base: Base) -> Lead:\n"
            "    assert type(base) is Base\n"
            "    return Lead(lead.name * base.n)\n"
        ),
        second=(
            "import PKG\nfrom PKG import first\n"
            "async def two(ctx, name: str) -> str:\n"
            "    found = await ctx.child(\n"
            "        first.one, PKG.Lead(name), PKG.Base(2), id=ctx.workflow_id + '-c')\n"
            "    assert isinstance(found, first.Lead) and isinstance(found, PKG.Lead)\n"
            "    return found.name\n"
        ),
    )
    app = AppDefinition(app_name, flows=[module.one, module.two])
    assert await outcome(server, app, "two", "ab") == "abab"
    assert module.first.Lead is module.Lead


async def inside(ctx: Context) -> str:
    return "fine"


async def test_a_flow_in_a_function_passes_through(
    server: str, app_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It runs, with one warning."""

    async def local(ctx: Context) -> str:
        return "ran"

    with caplog.at_level(logging.WARNING, "iworkflow.temporal"):
        assert await outcome(server, AppDefinition(app_name, flows=[local]), "local") == "ran"
    assert caplog.text.count("is defined inside of a function") == 1


async def test_a_flow_in_main_passes_through(
    server: str, app_name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does one of the script that was started."""
    monkeypatch.setattr(inside, "__module__", "__main__")
    with caplog.at_level(logging.WARNING, "iworkflow.temporal"):
        assert await outcome(server, AppDefinition(app_name, flows=[inside]), "inside") == "fine"
    assert caplog.text.count("is defined in __main__") == 1


@pytest.mark.filterwarnings("error")
async def test_waiting_is_not_warned_about(server: str, app_name: str, write: Write) -> None:
    """`asyncio.wait` and `as_completed` replay in the flow loop."""
    module = write(
        "flows",
        flows=(
            "import asyncio\n"
            "async def nap(ctx, n):\n    await ctx.sleep(0.01)\n    return n\n"
            "async def one(ctx):\n"
            "    tasks = [asyncio.ensure_future(nap(ctx, n)) for n in range(3)]\n"
            "    done, _ = await asyncio.wait(tasks)\n"
            "    return sorted(task.result() for task in done)\n"
        ),
    )
    app = AppDefinition(app_name, flows=[module.one])
    assert await outcome(server, app, "one") == [0, 1, 2]
