"""What a change of a contract breaks, and for whom.

Three pairs meet while a change is rolled out:

- a new starter and an old worker, where the starters went first;
- an old starter and a new worker, where the worker went first;
- runs in flight: begun under the old contract, they go on under the new worker, which reads
  their input and their messages again; parents read the recorded outcomes of their children
  again, and new readers the states that were set. What they cannot read fails or parks them.

A message is never owed, but one that is sent has to be read. A query may always answer None, but
one that answered must not fall silent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from iworkflow.contracts.differences import Difference, differences
from iworkflow.contracts.manifest import Manifest
from iworkflow.contracts.reading import Misread, Type, exclude, misreads


class Side(StrEnum):
    """A pair that meets while a change is rolled out."""

    NEW_STARTER = "new starter / old worker"
    OLD_STARTER = "old starter / new worker"
    IN_FLIGHT = "runs in flight"

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return self.name.lower().replace("_", "-")


_ALL = tuple(Side)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a contract; `broken` says why it breaks a pair."""

    contract: str
    part: str
    what: str
    broken: Mapping[Side, str] = field(default_factory=dict[Side, str])

    @property
    def breaking(self) -> bool:
        """Whether it breaks anything."""
        return bool(self.broken)


def judge_all(old: Mapping[str, Manifest], new: Mapping[str, Manifest]) -> list[Change]:
    """Judge every change from one set of manifests to another, both by name."""
    found: list[Change] = []
    for name in sorted({*old, *new}):
        if name not in new:
            gone = {
                Side.OLD_STARTER: "nobody runs what it starts",
                Side.IN_FLIGHT: "nobody carries them on",
            }
            found.append(Change(name, "contract", "removed", gone))
        elif name not in old:
            found.append(Change(name, "contract", "added"))
        else:
            found.extend(judge(old[name], new[name]))
    return found


def judge(old: Manifest, new: Manifest) -> list[Change]:
    """Judge every change from one manifest to another of the same contract."""
    return list(_Judge(old, new).changes())


def _why(found: list[Misread]) -> str:
    return "; ".join(f"{one.path}: {one.why}" if one.path else one.why for one in found)


class _Judge:
    def __init__(self, old: Manifest, new: Manifest) -> None:
        self.old = old
        self.new = new

    def changes(self) -> Iterator[Change]:
        yield from self._queue()
        yield from self._template()
        yield from self._input()
        yield from self._outcomes()
        yield from self._states()
        yield from self._signals()
        yield from self._queries()
        if self.old.get("description") != self.new.get("description"):
            yield self._change("description", "documentation changed")

    def _change(self, part: str, what: str, broken: Mapping[Side, str] | None = None) -> Change:
        ordered = {side: broken[side] for side in _ALL if side in broken} if broken else {}
        return Change(str(self.new["name"]), part, what, ordered)

    def _type(self, manifest: Manifest, schema: dict[str, Any]) -> Type:
        return Type(schema, manifest["$defs"])

    def _queue(self) -> Iterator[Change]:
        old, new = self.old["taskQueue"], self.new["taskQueue"]
        if old != new:
            broken = {
                Side.NEW_STARTER: f"nobody takes its runs from {new!r}",
                Side.OLD_STARTER: f"nobody takes its runs from {old!r}",
                Side.IN_FLIGHT: f"they wait in {old!r}, where no worker is",
            }
            yield self._change("task queue", f"changed from {old!r} to {new!r}", broken)

    def _template(self) -> Iterator[Change]:
        old, new = self.old["workflowId"], self.new["workflowId"]
        if old != new:
            why = (
                "the same input gets another id: a new starter does not find the run, and starts "
                "a second one"
            )
            yield self._change(
                "workflow id", f"changed from {old!r} to {new!r}", {Side.IN_FLIGHT: why}
            )

    def _input(self) -> Iterator[Change]:
        old = self._type(self.old, self.old["input"])
        new = self._type(self.new, self.new["input"])
        yield from self._typed("input", old, new, _sent(old, new))

    def _typed(
        self, part: str, old: Type, new: Type, broken: Mapping[Side, list[Misread]]
    ) -> Iterator[Change]:
        """One change for each difference; a misread goes to the difference that it is below."""
        found = differences(old, new)
        if all(one.documented for one in found) and any(broken.values()):
            found.append(Difference("", "type changed"))
        for one in found:
            mine = {
                side: [bad for bad in misread if not one.documented and _covers(one, bad, found)]
                for side, misread in broken.items()
            }
            where = f"{part}.{one.path}" if one.path else part
            why = {side: _why(bad) for side, bad in mine.items() if bad}
            yield self._change(where, one.what, why)

    def _signals(self) -> Iterator[Change]:
        old, new = self.old["signals"], self.new["signals"]
        for name in {**old, **new}:
            part = f"signal {name!r}"
            if name not in new:
                broken = {
                    Side.OLD_STARTER: "what it sends is never read",
                    Side.IN_FLIGHT: "what was sent to them is never read",
                }
                yield self._change(part, "removed", broken)
            elif name not in old:
                unread = {Side.NEW_STARTER: "what it sends is never read"}
                yield self._change(part, "added", unread)
            else:
                before = self._type(self.old, old[name]["schema"])
                after = self._type(self.new, new[name]["schema"])
                yield from self._message(part, old[name], new[name])
                yield from self._typed(part, before, after, _sent(before, after))

    def _queries(self) -> Iterator[Change]:
        old, new = self.old["queries"], self.new["queries"]
        for name in {**old, **new}:
            part = f"query {name!r}"
            if name not in new:
                silent = {Side.OLD_STARTER: "it answers None from now on"}
                yield self._change(part, "removed", silent)
            elif name not in old:
                yield self._change(part, "added")
            else:
                before = self._type(self.old, old[name]["schema"])
                after = self._type(self.new, new[name]["schema"])
                yield from self._message(part, old[name], new[name])
                yield from self._typed(part, before, after, _told(before, after))

    def _message(self, part: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
        if old["description"] != new["description"]:
            yield self._change(part, "documentation changed")

    def _outcomes(self) -> Iterator[Change]:
        old = {name: self._type(self.old, one) for name, one in self.old["outcomes"].items()}
        new = {name: self._type(self.new, one) for name, one in self.new["outcomes"].items()}
        unread = {
            Side.NEW_STARTER: _unread(new, old),
            Side.OLD_STARTER: _unread(old, new),
            Side.IN_FLIGHT: _unread(new, old),
        }
        for name in {**old, **new}:
            part = f"outcome {name!r}"
            broken = {side: found[name] for side, found in unread.items() if name in found}
            found = differences(old[name], new[name]) if name in old and name in new else []
            if name not in new:
                yield self._change(part, "removed", broken)
            elif name not in old:
                yield self._change(part, "added", broken)
            elif found:
                yield from self._outcome(part, found, broken)
            elif broken:
                yield self._change(part, "no longer stands alone", broken)

    def _outcome(
        self, part: str, found: list[Difference], broken: Mapping[Side, str]
    ) -> Iterator[Change]:
        real = [one for one in found if not one.documented]
        for one in real or found:
            where = f"{part}: {one.path}" if one.path else part
            yield self._change(where, one.what, broken)

    def _states(self) -> Iterator[Change]:
        old, new = self.old["states"], self.new["states"]
        if self.old["start"] != self.new["start"]:
            text = f"changed from {self.old['start']!r} to {self.new['start']!r}"
            broken = (
                {}
                if self.old["start"] is None
                else {Side.IN_FLIGHT: "those that told their start are parked"}
            )
            yield self._change("start", text, broken)
        for name in {**old, **new}:
            part = f"state {name!r}"
            if name not in new:
                why = {Side.IN_FLIGHT: "those that were in it are parked"}
                yield self._change(part, "removed", why)
            elif name not in old:
                yield self._change(part, "added")
            else:
                yield from self._arrows(part, old[name], new[name])

    def _arrows(self, part: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Change]:
        same = self._renamed()
        for one in old["next"]:
            if one not in new["next"]:
                kept = any(other in new["next"] for other in same.get(one, ()))
                why = "those that went this way are parked"
                broken = {} if kept else {Side.IN_FLIGHT: why}
                yield self._change(part, f"{one!r} may no longer follow", broken)
        for one in new["next"]:
            if one not in old["next"]:
                yield self._change(part, f"{one!r} may follow now")
        if old.get("description") != new.get("description"):
            yield self._change(part, "documentation changed")

    def _renamed(self) -> Mapping[str, list[str]]:
        """The outcomes that went, and those by which they are read now."""
        new = {name: self._type(self.new, one) for name, one in self.new["outcomes"].items()}
        return {
            name: [
                other
                for other, type in new.items()
                if not misreads(type, self._type(self.old, one))
            ]
            for name, one in self.old["outcomes"].items()
            if name not in new
        }


def _sent(old: Type, new: Type) -> Mapping[Side, list[Misread]]:
    """Judge what starters write and workers read."""
    return {
        Side.NEW_STARTER: misreads(old, new),
        Side.OLD_STARTER: misreads(new, old),
        Side.IN_FLIGHT: misreads(new, old),
    }


def _told(old: Type, new: Type) -> Mapping[Side, list[Misread]]:
    """Judge what workers write and starters read."""
    return {
        Side.NEW_STARTER: misreads(new, old),
        Side.OLD_STARTER: misreads(old, new),
        Side.IN_FLIGHT: misreads(new, old),
    }


def _covers(one: Difference, bad: Misread, all: list[Difference]) -> bool:
    """Whether a misread belongs to a difference: the one with the longest path above it."""
    real = [each for each in all if not each.documented]
    above = [each for each in real if _is_above(each.path, bad.path)]
    deepest = max(above or real, key=lambda each: len(each.path))
    return one.path == deepest.path


def _is_above(path: str, inner: str) -> bool:
    return not path or inner == path or inner.startswith((f"{path}.", f"{path}[", f"{path}{{"))


def _unread(readers: Mapping[str, Type], writers: Mapping[str, Type]) -> dict[str, str]:
    """Say which outcomes of the writers the readers do not read as exactly one of theirs."""
    found: dict[str, str] = {}
    for name, writer in writers.items():
        fits = [one for one, reader in readers.items() if not misreads(reader, writer)]
        rivals = [one for one, reader in readers.items() if not exclude(reader, writer)]
        if not fits:
            near = readers.get(name)
            why = f": {_why(misreads(near, writer))}" if near is not None else ""
            found[name] = f"it is no outcome for the reader{why}"
        elif len(rivals) > 1:
            found[name] = f"it may be read as {' or '.join(repr(one) for one in rivals)}"
    return found
