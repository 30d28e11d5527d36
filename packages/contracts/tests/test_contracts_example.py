"""The worked example is run: its apps, its documents, and the break that is caught."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iworkflow.contracts import start_contract
from iworkflow.core.testing import FlowTest

DOCS = Path(__file__).parents[3] / "docs/contracts"
EXAMPLE = DOCS / "example"
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sessions() -> list[tuple[list[str], str]]:
    """The commands of the guide, each with what it prints there."""
    found: list[tuple[list[str], str]] = []
    for block in CONSOLE.findall((DOCS / "README.md").read_text()):
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = piece.partition("\n")
            found.append((command.split(), printed))
    return found


def run(command: list[str], folder: Path) -> tuple[int, str]:
    """Run a command of the guide; give its exit code and what it prints."""
    assert command[0] == "iworkflow-contracts"
    ran = subprocess.run(
        [sys.executable, "-m", "iworkflow.contracts", *command[1:]],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout


def test_the_guide_shows_what_the_commands_print(tmp_path: Path) -> None:
    """Written, checked, a member edited, the break caught, the types written."""
    shutil.copy(EXAMPLE / "profile_contracts.py", tmp_path)
    module = tmp_path / "profile_contracts.py"
    text = module.read_text()
    edited = text.replace("reason: str", "code: int")
    assert edited != text
    codes: list[int] = []
    for command, printed in sessions():
        module.write_text(edited if "--against" in command else text)
        code, out = run(command, tmp_path)
        assert sorted(out.splitlines()) == sorted(printed.splitlines())
        codes.append(code)
    assert codes == [0, 0, 3, 0]
    module.write_text(edited)
    code, out = run(sessions()[1][0], tmp_path)
    assert code == 1
    assert "--- a/docs/organizationOnboarding.json\n+++ b/docs/organizationOnboarding.json" in out


def test_the_committed_documents_are_of_the_example() -> None:
    """The page and the types that a reader sees are what the commands write."""
    for command in (
        ["iworkflow-contracts", "profile_contracts", "--out", "docs", "--check"],
        ["iworkflow-contracts", "ts", "docs", "--out", "types", "--check"],
    ):
        assert run(command, EXAMPLE)[0] == 0


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The modules of the example."""
    names = ("profile_contracts", "iprofile", "ioutreach")
    monkeypatch.syspath_prepend(str(EXAMPLE))
    modules = {name: __import__(name) for name in names}
    yield type("Example", (), modules)
    for name in names:
        del sys.modules[name]


async def test_the_two_apps_meet(example: Any) -> None:
    """The neighbour starts the owner's process, which a manager approves, lets lie, or refuses."""
    pact = example.profile_contracts
    contract = pact.organization_onboarding
    async with FlowTest(example.iprofile.app, example.ioutreach.app) as t:
        known = await t.start(example.ioutreach.outreach, "org-1")
        t.signal_at(3600, "iprofile-org-org-1", "approve", pact.Approval("me"))
        assert await known.result() == "invited org-1/me"
        unknown = await t.start(example.ioutreach.outreach, "other")
        assert await unknown.result() == "no: unknown code"
        handle = await start_contract(t.client, contract, pact.Onboarding("org-2", "me"))
        assert await handle.result() == pact.Refused(ok=False, reason="nobody approved")
        assert await handle.query(contract.queries["checks"]) == {"known": True}
        assert await handle.state() == "awaiting approval"
