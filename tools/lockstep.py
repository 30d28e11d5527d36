"""Keep the members of the workspace at one version: `lockstep.py check` or `lockstep.py set X`.

Versions and the pins between members are static text in each `pyproject.toml`, because an sdist
must build on its own. This tool is what keeps them equal. `check` prints every fault and exits 1 if
there is one; `set` rewrites versions and pins, and then checks.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMESPACE = "iworkflow"
HUB = "iworkflow-core"
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?(\.dev\d+)?")
VERSION_LINE = re.compile(r'^version = "[^"]*"$', re.MULTILINE)
PIN = re.compile(r'"(iworkflow-[a-z]+)(\[[a-z,-]+\])?==[^"]*"')
SIBLING = re.compile(r"(iworkflow-[a-z]+)(?:\[[a-z,-]+\])?(.*)")


@dataclass(frozen=True, slots=True)
class Member:
    """One package of the workspace, as its `pyproject.toml` describes it."""

    folder: Path
    project: dict[str, Any]

    @property
    def name(self) -> str:
        """The distribution's name."""
        return str(self.project["name"])

    @property
    def version(self) -> str:
        """The distribution's own version."""
        return str(self.project["version"])

    @property
    def requirements(self) -> list[str]:
        """All that it requires, extras included."""
        extras: dict[str, list[str]] = self.project.get("optional-dependencies", {})
        plain: list[str] = self.project.get("dependencies", [])
        return [*plain, *(line for lines in extras.values() for line in lines)]


def members(root: Path) -> list[Member]:
    """Read all members, core first."""
    folders = [*sorted((root / "packages").iterdir()), root / "lab"]
    found = [_member(folder) for folder in folders if (folder / "pyproject.toml").is_file()]
    return sorted(found, key=lambda member: member.name != HUB)


def _member(folder: Path) -> Member:
    text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    return Member(folder, tomllib.loads(text)["project"])


def faults(root: Path) -> Iterator[str]:
    """Give one line for each thing that is out of step."""
    found = members(root)
    names = {member.name for member in found}
    if HUB not in names:
        yield f"packages: no member is called {HUB}"
        return
    version = found[0].version
    for member in found:
        yield from _version_faults(member, version, names)
        yield from _file_faults(member, root)
    yield from _namespace_faults(root)


def _version_faults(member: Member, version: str, names: set[str]) -> Iterator[str]:
    if member.version != version:
        yield f"{member.name}: version is {member.version}, core's is {version}"
    pinned = dict(_siblings(member))
    for name, pin in pinned.items():
        if name not in names:
            yield f"{member.name}: requires {name}, which is no member"
        elif pin != f"=={version}":
            yield f"{member.name}: requires {name}{pin}, not {name}=={version}"
    if member.name != HUB and HUB not in pinned:
        yield f"{member.name}: does not require {HUB}=={version}"


def _siblings(member: Member) -> Iterator[tuple[str, str]]:
    for requirement in member.requirements:
        if match := SIBLING.fullmatch(requirement):
            yield match[1], match[2].strip()


def _file_faults(member: Member, root: Path) -> Iterator[str]:
    licence = member.folder / "LICENSE"
    if licence.is_symlink() or not licence.is_file():
        yield f"{member.name}: has no LICENSE file of its own (a link dangles in an sdist)"
    elif licence.read_bytes() != (root / "LICENSE").read_bytes():
        yield f"{member.name}: its LICENSE differs from the root's"
    if not (member.folder / "README.md").is_file():
        yield f"{member.name}: has no README.md"
    if not list(member.folder.glob("src/**/py.typed")):
        yield f"{member.name}: has no py.typed"


def _namespace_faults(root: Path) -> Iterator[str]:
    for stray in sorted(root.glob(f"*/**/{NAMESPACE}/__init__.py")):
        yield f"{stray.relative_to(root)}: hides the other packages; {NAMESPACE} is a namespace"


def set_version(root: Path, version: str) -> None:
    """Write `version` as every member's version and into every pin between members."""
    if not VERSION.fullmatch(version):
        raise SystemExit(f"lockstep: {version!r} is no version (such as 0.4.1 or 0.5.0rc1)")
    for member in members(root):
        path = member.folder / "pyproject.toml"
        text = VERSION_LINE.sub(f'version = "{version}"', path.read_text(encoding="utf-8"), count=1)
        path.write_text(PIN.sub(rf'"\1\2=={version}"', text), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; give its exit code."""
    parser = argparse.ArgumentParser(prog="lockstep.py", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the workspace's folder")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="print what is out of step")
    commands.add_parser("set", help="set one version everywhere").add_argument("version")
    options = parser.parse_args(arguments)
    if options.command == "set":
        set_version(options.root, options.version)
    found = list(faults(options.root))
    for fault in found:
        print(fault, file=sys.stderr)
    if not found:
        all_members = members(options.root)
        print(f"lockstep: {len(all_members)} members at {all_members[0].version}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
