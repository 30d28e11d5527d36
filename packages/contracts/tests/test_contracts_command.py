"""The command `iworkflow-contracts`: documents written, checked, owned by their mark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iworkflow.contracts.cli import main

CONTRACTS = '''\
"""The contracts of a team."""

from typing import Literal

import msgspec

from iworkflow.contracts import Message, State, define_workflow_contract


class Onboarding(msgspec.Struct):
    """An organisation to be taken in."""

    code: str


class Created(msgspec.Struct):
    ok: Literal[True]
    organization_id: str


class Refused(msgspec.Struct):
    ok: Literal[False]
    reason: str


onboarding = define_workflow_contract(
    name="organizationOnboarding",
    task_queue="iprofile",
    workflow_id="iprofile-org-{code}",
    input=Onboarding,
    outcomes={"created": Created, "refused": Refused},
    states={"checking": State(next=["created", "refused"], description="asks | around")},
    signals={"approve": Message("a manager approved", str)},
    queries={"status": Message("where it stands", dict[str, int])},
)
'''

LETTER = """\
import msgspec

from iworkflow.contracts import define_workflow_contract


class Letter(msgspec.Struct):
    code: str


letter = define_workflow_contract(
    name="letter",
    task_queue="ipost",
    workflow_id="letter-{code}",
    input=Letter,
    outcomes={"sent": Letter},
)
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with two modules of contracts, the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "team_contracts.py").write_text(CONTRACTS)
    (tmp_path / "post_contracts.py").write_text(LETTER)
    before, path = set(sys.modules), list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", "").startswith(str(tmp_path)):
            del sys.modules[name]


def edited(project: Path, old: str, new: str) -> None:
    """Edit the module of contracts, and forget that it was imported."""
    text = (project / "team_contracts.py").read_text()
    assert old in text
    (project / "team_contracts.py").write_text(text.replace(old, new))
    sys.modules.pop("team_contracts", None)
    for cached in (project / "__pycache__").glob("team_contracts*"):
        cached.unlink()


def write(*modules: str, out: str = "docs") -> None:
    assert main([*(modules or ("team_contracts",)), "--out", out]) == 0


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_call_writes_manifest_page_and_index(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second call writes nothing, and says so."""
    write("team_contracts", "post_contracts", out="docs/contracts")
    folder = project / "docs/contracts"
    assert names(folder) == [
        "index.md",
        "letter.json",
        "letter.md",
        "organizationOnboarding.json",
        "organizationOnboarding.md",
    ]
    assert capsys.readouterr().out.count("wrote docs/contracts/") == 5
    stamps = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    write("post_contracts", "team_contracts", out="docs/contracts")
    assert capsys.readouterr().out == "docs/contracts is up to date\n"
    assert stamps == {path: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_the_page_shows_all_of_the_contract(project: Path) -> None:
    """Template, queue, states with their diagram, types, signals and queries."""
    write()
    page = (project / "docs/organizationOnboarding.md").read_text()
    assert page.startswith('<!-- "$generator": "iworkflow-contracts" -->\n# organizationOnboarding')
    for piece in (
        "- task queue: `iprofile`",
        "- workflow id: `iprofile-org-{code}`",
        "```mermaid\nstateDiagram-v2\n",
        "| checking | created, refused | asks \\| around |",
        "An organisation to be taken in.",
        "### refused\n\n`Refused`",
        "| `ok` | `false` | yes |  |",
        "| `approve` | `string` | a manager approved |",
        "| `status` | `map of integer` | where it stands |",
    ):
        assert piece in page
    index = (project / "docs/index.md").read_text()
    assert "| [organizationOnboarding](organizationOnboarding.md) | `iprofile` |" in index


def test_check_is_clean_after_a_write_and_shows_a_drift(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 0, then 1 with a unified diff and what to run; it writes nothing."""
    write()
    assert main(["team_contracts", "--out", "docs", "--check"]) == 0
    edited(project, "reason: str", "reason: int")
    before = {path: path.read_bytes() for path in (project / "docs").iterdir()}
    capsys.readouterr()
    assert main(["team_contracts", "--out", "docs", "--check"]) == 1
    shown = capsys.readouterr()
    assert "--- a/docs/organizationOnboarding.json\n+++ b/docs/organizationOnboarding.json\n@@" in (
        shown.out
    )
    assert '-          "type": "string"\n+          "type": "integer"\n' in shown.out
    assert shown.err == (
        "docs is out of date; run: iworkflow-contracts team_contracts --out docs\n"
    )
    assert before == {path: path.read_bytes() for path in (project / "docs").iterdir()}


def test_check_on_a_missing_folder_says_what_to_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a drift, and nothing is made."""
    assert main(["team_contracts", "--out", "docs", "--check"]) == 1
    assert capsys.readouterr().err == (
        "docs is missing; run: iworkflow-contracts team_contracts --out docs\n"
    )
    assert not (project / "docs").exists()


def test_generated_files_that_are_no_longer_produced_go(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under `--check` they are a drift; files without the mark are never touched."""
    write("team_contracts", "post_contracts")
    mine = {"README.md": "# mine\n", "data.json": '{"$generator": "mine"}', "odd.json": "no json"}
    for name, text in mine.items():
        (project / "docs" / name).write_text(text)
    (project / "docs" / "folder.md").mkdir()
    assert main(["team_contracts", "--out", "docs", "--check"]) == 1
    shown = capsys.readouterr().out
    assert "--- a/docs/letter.md\n+++ /dev/null\n" in shown
    assert (project / "docs/letter.md").exists()
    write("team_contracts")
    assert "deleted docs/letter.json" in capsys.readouterr().out
    assert names(project / "docs") == [
        "README.md",
        "data.json",
        "folder.md",
        "index.md",
        "odd.json",
        "organizationOnboarding.json",
        "organizationOnboarding.md",
    ]
    assert {name: (project / "docs" / name).read_text() for name in mine} == mine


@pytest.mark.parametrize("name", ["index.md", "letter.md", "letter.json"])
@pytest.mark.parametrize("check", [[], ["--check"]])
def test_a_hand_written_file_in_the_way_is_an_error(
    project: Path, capsys: pytest.CaptureFixture[str], name: str, check: list[str]
) -> None:
    """Nothing is written, not even the others."""
    (project / "docs").mkdir()
    (project / "docs" / name).write_text("mine\n")
    assert main(["post_contracts", "--out", "docs", *check]) == 2
    assert capsys.readouterr().err == (
        f"iworkflow-contracts: docs/{name} is in the way: it was not generated (it does not bear "
        "the mark); move it, or choose another --out\n"
    )
    assert names(project / "docs") == [name]


def test_an_output_that_is_a_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, and so is a file further up."""
    (project / "docs").write_text("mine")
    assert main(["post_contracts", "--out", "docs"]) == 2
    assert capsys.readouterr().err == (
        "iworkflow-contracts: docs is a file, not a folder; choose another --out\n"
    )
    assert main(["post_contracts", "--out", "docs/contracts"]) == 2
    assert capsys.readouterr().err == (
        "iworkflow-contracts: cannot write to docs/contracts: Not a directory\n"
    )


def test_an_output_that_cannot_be_written_to(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named with the system's reason; no half-written file stays."""
    write("post_contracts")
    (project / "docs/letter.md").unlink()

    def refuse(source: str, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(target))

    monkeypatch.setattr(os, "replace", refuse)
    assert main(["post_contracts", "--out", "docs"]) == 2
    assert capsys.readouterr().err == (
        "iworkflow-contracts: cannot write to docs: Permission denied\n"
    )
    assert names(project / "docs") == ["index.md", "letter.json"]


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        (
            ["nowhere"],
            (
                "no module 'nowhere', in this folder or installed; run the command in the folder "
                "that holds it, or install its package"
            ),
        ),
        (["json"], "module 'json' has no contracts; make them there with define_workflow_contract"),
        (["team_contracts.py"], "'team_contracts.py' is a file; name it as a module, like team_"),
        (["broken"], "cannot import 'broken': ZeroDivisionError: division by zero ("),
        (["needs"], "cannot import 'needs': ModuleNotFoundError: No module named 'absent' ("),
        (["leaves"], "cannot import 'leaves': SystemExit: 3 ("),
        (
            ["wrong"],
            (
                "cannot import 'wrong': ContractError: contract 'letter': workflow_id: field 'cod' "
                "is not in Letter (fields: 'code'); did you mean 'code'? ("
            ),
        ),
        (
            ["post_contracts", "copied"],
            "two contracts are named 'letter', in 'post_contracts' and in 'copied'; rename one",
        ),
        (
            ["post_contracts", "cased"],
            (
                "contracts 'Letter' and 'letter' would share a file where case does not count; "
                "rename one"
            ),
        ),
    ],
)
def test_modules_that_are_wrong(
    project: Path, capsys: pytest.CaptureFixture[str], modules: list[str], message: str
) -> None:
    """Exit 2, one message that names the module, and nothing written."""
    (project / "broken.py").write_text("1 / 0\n")
    (project / "needs.py").write_text("import absent\n")
    (project / "leaves.py").write_text("raise SystemExit(3)\n")
    (project / "wrong.py").write_text(LETTER.replace("{code}", "{cod}"))
    (project / "copied.py").write_text(LETTER)
    (project / "cased.py").write_text(LETTER.replace('name="letter"', 'name="Letter"'))
    assert main([*modules, "--out", "docs"]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"iworkflow-contracts: {message}")
    assert (shown.out, (project / "docs").exists()) == ("", False)


def test_a_contract_that_two_modules_name_is_one(project: Path) -> None:
    """A package may hand on what its modules define."""
    (project / "package.py").write_text("from post_contracts import letter\n")
    write("package", "post_contracts")
    assert names(project / "docs") == ["index.md", "letter.json", "letter.md"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: pkg.mod"),
        (["team_contracts"], "give --out DIR to write the documents, or --against DIR to judge"),
        (["team_contracts", "--check"], "--check needs --out, the folder to check"),
        (["team_contracts", "--out", "x", "--allow", "in-flight"], "--allow goes with --against"),
        (["ts", "docs"], "the following arguments are required: --out"),
    ],
)
def test_usage_that_is_wrong(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """Exit 2, and what is missing."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "code", "verdict"),
    [
        ("# nothing", "", 0, "no change since docs"),
        (
            "    code: str\n\n\nclass Created",
            '    code: str\n    note: str = ""\n\n\nclass Created',
            0,
            "compatible: organizationOnboarding: input.note: member added (optional)\ncompatible",
        ),
        (
            "reason: str",
            "reason: int",
            3,
            (
                "breaking: organizationOnboarding: outcome 'refused': reason: type changed from "
                "string to integer\n"
                "  new starter / old worker: it is no outcome for the reader: reason: string is "
                "written where integer is read\n"
                "  old starter / new worker: it is no outcome for the reader: reason: integer is "
                "written where string is read\n"
                "  runs in flight: it is no outcome for the reader: reason: string is written "
                "where integer is read"
            ),
        ),
    ],
)
def test_against(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    code: int,
    verdict: str,
) -> None:
    """0 for a compatible change, 3 for a breaking one; it writes nothing."""
    with (project / "team_contracts.py").open("a") as file:
        file.write("# nothing\n")
    write()
    before = {path: path.read_bytes() for path in (project / "docs").iterdir()}
    edited(project, old, new)
    capsys.readouterr()
    assert main(["team_contracts", "--against", "docs"]) == code
    shown = capsys.readouterr()
    assert shown.out == f"{verdict}\n"
    if code:
        assert shown.err == (
            "breaking for: new starter / old worker, old starter / new worker, runs in flight\n"
        )
    assert before == {path: path.read_bytes() for path in (project / "docs").iterdir()}


def test_a_break_wins_over_a_drift(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With both, the diff is shown and the exit is 3."""
    write()
    edited(project, "iprofile-org-", "org-")
    capsys.readouterr()
    assert main(["team_contracts", "--against", "docs", "--out", "docs", "--check"]) == 3
    shown = capsys.readouterr()
    assert "+++ b/docs/organizationOnboarding.json" in shown.out
    assert "breaking for: runs in flight\n" in shown.err


def test_a_pair_may_be_allowed_to_break(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is reported still; the exit tells of the others alone."""
    write()
    edited(project, "iprofile-org-", "org-")
    allowed = ["team_contracts", "--against", "docs", "--allow", "in-flight"]
    assert main(allowed) == 0
    assert "breaking: organizationOnboarding: workflow id" in capsys.readouterr().out
    edited(project, '"iprofile"', '"iother"')
    assert main(allowed) == 3
    assert capsys.readouterr().err == (
        "breaking for: new starter / old worker, old starter / new worker\n"
    )


def test_against_what_is_no_folder_of_manifests(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, and what to run."""
    assert main(["team_contracts", "--against", "docs"]) == 2
    assert capsys.readouterr().err == ("iworkflow-contracts: docs is no folder of manifests\n")


def test_names_that_no_file_can_have(project: Path) -> None:
    """Slashes, dots, spaces, reserved and endless names all get a file of their own."""
    odd = ["a/b", "..", "index", "ключ", "x" * 254, "x" * 255, "a b", "con"]
    text = LETTER + "".join(
        f"other{number} = define_workflow_contract(name={name!r}, task_queue='ipost', "
        "workflow_id='x', input=Letter, outcomes={'sent': Letter})\n"
        for number, name in enumerate(odd)
    )
    (project / "post_contracts.py").write_text(text)
    write("post_contracts")
    assert len(names(project / "docs")) == 2 * (len(odd) + 1) + 1
    assert "a%2Fb.md" in names(project / "docs")
    assert "[a/b](a%252Fb.md)" in (project / "docs/index.md").read_text()
    assert main(["post_contracts", "--out", "docs", "--check"]) == 0


def run(*arguments: str, python_path: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("iworkflow-contracts")
    environment = {**os.environ, "PYTHONPATH": str(python_path or "")}
    return subprocess.run(
        [command, *arguments], capture_output=True, text=True, check=False, env=environment
    )


def test_the_installed_command(project: Path) -> None:
    """It finds modules in the current folder, and exits as told."""
    assert run("team_contracts", "--out", "docs").returncode == 0
    assert run("team_contracts", "--out", "docs", "--check").returncode == 0
    assert run("nowhere", "--out", "docs").returncode == 2
    module = subprocess.run(
        [sys.executable, "-m", "iworkflow.contracts", "team_contracts", "--out", "docs"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (module.returncode, module.stdout) == (0, "docs is up to date\n")


def test_a_foreign_core_is_named_with_the_remedy(project: Path) -> None:
    """Exit 2 and one line, as for any import error."""
    site = project / "site"
    (site / "iworkflow_core-0.3.0.dist-info").mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\nName: iworkflow-core\nVersion: 0.3.0\n"
    (site / "iworkflow_core-0.3.0.dist-info/METADATA").write_text(metadata)
    ran = run("team_contracts", "--out", "docs", python_path=site)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "iworkflow-contracts: iworkflow-contracts 0.4.0 does not work with iworkflow-core 0.3.0: "
        'both must be of one version; run: pip install "iworkflow-contracts==0.3.0"\n'
    )
