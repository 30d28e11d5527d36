"""What the README files show is real code."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest

from iworkflow.core import AppDefinition, Context
from iworkflow.core.testing import FlowTest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def _blocks(readme: str) -> list[str]:
    return BLOCK.findall((ROOT / readme).read_text(encoding="utf-8"))


@pytest.fixture
def shown() -> Iterator[ModuleType]:
    """The first block of the root README, as a module."""
    module = ModuleType("shown_in_readme")
    sys.modules[module.__name__] = module
    exec(compile(_blocks("README.md")[0], "README.md", "exec"), module.__dict__)
    yield module
    del sys.modules[module.__name__]


async def enrich(_ctx: Context, name: str) -> str:
    return f"about {name}"


iprofile = AppDefinition(app="iprofile", flows=[enrich])


@pytest.mark.parametrize("reply", ["yes", None])
async def test_the_flow_of_the_readme_runs(shown: ModuleType, reply: str | None) -> None:
    """The flow shown first ends as its text says, with a reply and without one."""
    async with FlowTest(shown.app, iprofile) as test:
        run = await test.start(shown.outreach, "Ada", id="lead-7")
        if reply is not None:
            test.signal_at(timedelta(hours=3), run.id, "reply", reply)
        result = await run.result()
        steps = [step.step for step in test.trace(run.id).steps]
        state = await run.query("reply")
    assert result == {"draft": "Dear Ada", "profile": "about Ada", "reply": reply}
    assert steps == (["compose"] if reply else ["compose", "remind"])
    assert state == reply


def test_the_flow_is_short() -> None:
    """The first thing that a reader sees is about 20 lines."""
    assert len(_blocks("README.md")[0].splitlines()) <= 25


@pytest.mark.parametrize("readme", ["README.md", "packages/core/README.md"])
def test_every_block_compiles(readme: str) -> None:
    """No block has a slip that Python would refuse."""
    blocks = _blocks(readme)
    assert blocks
    for block in blocks:
        compile(block, readme, "exec", flags=FLAGS)


@pytest.mark.parametrize("package", ["core", "temporal", "dbos", "contracts"])
def test_links_between_the_readmes_resolve(package: str) -> None:
    """Each package that the root README links to is there."""
    assert f"](packages/{package})" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert (ROOT / "packages" / package / "README.md").is_file()
