"""The folder of generated files: one call owns those that bear its mark, and no others."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iworkflow.contracts.manifest import Manifest, is_manifest, manifest_text
from iworkflow.contracts.page import MARK, index_of, page_of

INDEX = "index.md"

_KEPT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_LONGEST = 120
_RESERVED = frozenset({"index", "con", "prn", "aux", "nul"})

TS_MARK = '// "$generator": "iworkflow-contracts"'
"""The first line of every TypeScript file that is generated."""


class FolderError(ValueError):
    """The folder cannot take the files; nothing was written."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What differs between a folder and what should be in it."""

    folder: Path
    written: Mapping[str, str]
    """name -> text, of the files that are missing or differ."""
    deleted: Sequence[str]
    """Generated files that are no longer produced."""

    @property
    def clean(self) -> bool:
        """Whether nothing differs."""
        return not self.written and not self.deleted

    def diff(self) -> Iterator[str]:
        """Show what `apply` would change, as a unified diff."""
        for name in sorted([*self.written, *self.deleted]):
            path = self.folder / name
            old = path.read_text("utf-8") if path.exists() else ""
            yield from _diff(path, old if path.exists() else None, self.written.get(name))

    def apply(self) -> None:
        """Write and delete; a file is replaced whole or not at all.

        Raises:
            FolderError: the folder cannot be made or written to.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for name, content in self.written.items():
                _replace(self.folder / name, content)
            for name in self.deleted:
                (self.folder / name).unlink()
        except OSError as error:
            raise FolderError(f"cannot write to {self.folder}: {error.strerror or error}") from None


def documents(manifests: Sequence[Manifest]) -> dict[str, str]:
    """Write every manifest, its page, and the index: file name -> text.

    Raises:
        FolderError: two names would share a file where case does not count.
    """
    ordered = sorted(manifests, key=lambda one: str(one["name"]))
    stems = stems_of([str(one["name"]) for one in ordered])
    files: dict[str, str] = {}
    for manifest, stem in zip(ordered, stems, strict=True):
        files[f"{stem}.json"] = manifest_text(manifest)
        files[f"{stem}.md"] = page_of(manifest, f"{stem}.json")
    files[INDEX] = index_of([(one, f"{stem}.md") for one, stem in zip(ordered, stems, strict=True)])
    return files


def stems_of(names: Sequence[str]) -> list[str]:
    """Name the files of contracts; what a file name cannot hold is written as %XX.

    Raises:
        FolderError: two would share a file where case does not count.
    """
    found: dict[str, str] = {}
    for name in names:
        stem = _stem(name)
        other = found.setdefault(stem.lower(), name)
        if other != name:
            raise FolderError(
                f"contracts {other!r} and {name!r} would share a file where case does not count; "
                "rename one"
            )
    return [_stem(name) for name in names]


def _stem(name: str) -> str:
    stem = "".join(_quoted(one) if one not in _KEPT else one for one in name)
    if stem.startswith(".") or stem.lower() in _RESERVED:
        stem = _quoted(stem[0]) + stem[1:]
    if len(stem) > _LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        stem = f"{stem[: _LONGEST - 13]}-{digest}"
    return stem


def _quoted(one: str) -> str:
    return "".join(f"%{byte:02X}" for byte in one.encode())


def plan(
    folder: Path, files: Mapping[str, str], is_marked: Callable[[Path], bool] | None = None
) -> Plan:
    """Compare a folder with the files that should be in it; touches nothing.

    Args:
        folder: it need not exist.
        files: name -> text.
        is_marked: whether a file is one of the generator's, of the kinds written here.

    Raises:
        FolderError: the folder is a file, or a file that is not generated is in the way.
    """
    marked = is_marked or is_document
    if folder.exists() and not folder.is_dir():
        raise FolderError(f"{folder} is a file, not a folder; choose another --out")
    there = {path.name: path for path in sorted(folder.iterdir())} if folder.exists() else {}
    for name in files:
        if name in there and not marked(there[name]):
            raise FolderError(
                f"{there[name]} is in the way: it was not generated (it does not bear the mark); "
                "move it, or choose another --out"
            )
    deleted = [name for name, path in there.items() if name not in files and marked(path)]
    written = {
        name: content
        for name, content in files.items()
        if name not in there or there[name].read_bytes() != content.encode()
    }
    return Plan(folder, written, deleted)


def is_document(path: Path) -> bool:
    """Whether this is a manifest or a page that was generated."""
    if path.suffix == ".md":
        return _first_line(path) == MARK
    if path.suffix != ".json" or not path.is_file():
        return False
    try:
        return is_manifest(json.loads(path.read_text("utf-8")))
    except ValueError:
        return False


def is_typescript(path: Path) -> bool:
    """Whether this is a TypeScript file that was generated."""
    return path.suffix == ".ts" and _first_line(path) == TS_MARK


def _first_line(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().rstrip("\r\n")


def _diff(path: Path, old: str | None, new: str | None) -> Iterator[str]:
    before = "/dev/null" if old is None else f"a/{path}"
    after = "/dev/null" if new is None else f"b/{path}"
    lines = difflib.unified_diff(_lines(old), _lines(new), before, after)
    yield from (line if line.endswith("\n") else line + "\n" for line in lines)


def _lines(text: str | None) -> list[str]:
    return [] if text is None else [f"{line}\n" for line in text.split("\n")[:-1] or [text]]


def _replace(path: Path, content: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode())
        # A temporary file is the writer's alone; a generated one is as any new file.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
