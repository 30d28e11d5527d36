"""TypeScript types from a manifest: text that is known, in a folder of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from iworkflow.contracts import Message, State, define_workflow_contract
from iworkflow.contracts.cli import main
from iworkflow.contracts.manifest import Manifest, manifest_of, manifest_text
from iworkflow.contracts.typescript import module_of


class Part(msgspec.Struct):
    """A part. */ Not the end."""

    name: str
    note: str | None = None


class Input(msgspec.Struct, rename={"odd": "odd-key"}):
    code: str
    odd: int
    pair: tuple[int, str]
    parts: list[Part]
    by_name: dict[str, Part | int]
    anything: Any


class Outcome(msgspec.Struct):
    ok: bool


class State2(msgspec.Struct):
    x: int


def manifest(name: str = "odd names") -> Manifest:
    contract = define_workflow_contract(
        name=name,
        task_queue="iprofile",
        workflow_id="x-{code}",
        input=Input,
        outcomes={"it is": Outcome},
        states={'say "hi"': State(next=["it is"])},
        signals={"class": Message("a word", Part)},
    )
    return json.loads(manifest_text(manifest_of(contract)))


def test_the_text_of_a_module() -> None:
    """Names that TypeScript cannot have are quoted or changed; members are as in JSON."""
    assert (
        module_of(manifest())
        == """\
// "$generator": "iworkflow-contracts"

export type Input_2 = { code: string; "odd-key": number; pair: [number, string]; \
parts: Array<Part>; by_name: Record<string, Part | number>; anything: unknown };

export type Outcome_2 = { ok: boolean };

/** A part. * / Not the end. */
export type Part = { name: string; note?: string | null };

export type Input = Input_2;

export type Outcomes = {
  "it is": Outcome_2;
};

/** No tag says which it is: tell them apart by their members. */
export type Outcome = Outcomes[keyof Outcomes];

export type State = "say \\"hi\\"";

export type Signals = {
  /** a word */
  class: Part;
};

export type Queries = {
};

export const contract = {
  name: "odd names",
  taskQueue: "iprofile",
  workflowId: "x-{code}",
} as const;
"""
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two manifests, the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for name in ("one", "two"):
        (tmp_path / f"docs/{name}.json").write_text(manifest_text(manifest(name)))
    return tmp_path


def test_types_are_written_and_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From files or folders; what is no longer produced goes, what bears no mark stays."""
    assert main(["ts", "docs", "--out", "types", "--check"]) == 1
    assert capsys.readouterr().err == (
        "types is missing; run: iworkflow-contracts ts docs --out types\n"
    )
    assert main(["ts", "docs/one.json", "docs", "--out", "types"]) == 0
    (folder / "types/mine.ts").write_text("export {};\n")
    assert main(["ts", "docs", "--out", "types", "--check"]) == 0
    assert main(["ts", "docs/one.json", "--out", "types", "--check"]) == 1
    assert main(["ts", "docs/one.json", "--out", "types"]) == 0
    assert sorted(path.name for path in (folder / "types").iterdir()) == ["mine.ts", "one.ts"]


def test_types_and_documents_may_share_a_folder(folder: Path) -> None:
    """Neither command deletes what the other has written."""
    assert main(["ts", "docs", "--out", "docs"]) == 0
    names = sorted(path.name for path in (folder / "docs").iterdir())
    assert names == ["one.json", "one.ts", "two.json", "two.ts"]


def test_what_is_wrong_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is missing, no manifest, of another version, or of a contract told twice."""
    (folder / "wrong.json").write_text("{}")
    (folder / "other.json").write_text(manifest_text({**manifest("one"), "taskQueue": "elsewhere"}))
    (folder / "newer.json").write_text(manifest_text({**manifest("one"), "manifestVersion": 9}))
    for arguments, message in (
        (["nowhere.json"], "nowhere.json: No such file or directory"),
        (["wrong.json"], 'wrong.json is no manifest: it has no "$generator"'),
        (["newer.json"], "newer.json is a manifest of version 9, and this package reads version 1"),
        (["docs", "other.json"], "two manifests are of the contract 'one'"),
    ):
        assert main(["ts", *arguments, "--out", "types"]) == 2
        assert capsys.readouterr().err.startswith(f"iworkflow-contracts: {message}")
    assert not (folder / "types").exists()
