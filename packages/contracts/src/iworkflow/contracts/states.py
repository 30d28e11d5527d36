"""The graph of a contract's states: what is wrong with it, and a walk through it at run time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from iworkflow.contracts.errors import INVALID_TRANSITION
from iworkflow.contracts.parts import State
from iworkflow.core.checks import choices
from iworkflow.core.codec.hints import is_a
from iworkflow.core.errors import Failure, non_retryable

STATE_KEY = "state"
"""The key under which a flow tells its state."""


def state_faults(states: Mapping[str, State], outcomes: Collection[str]) -> Iterator[str]:
    """Say what is wrong with the states; the first is the start."""
    malformed = [fault for name, state in states.items() for fault in _shape_faults(name, state)]
    yield from malformed
    if malformed or not states:
        return
    for name in states:
        if name in outcomes:
            yield f"states: {name!r} is the name of a state and of an outcome"
    unknown = list(_unknown_faults(states, outcomes))
    yield from unknown
    if not unknown:
        yield from _reach_faults(states, outcomes)


def _shape_faults(name: str, state: object) -> Iterator[str]:
    if not is_a(state, State):
        yield f"states: {name!r} must be a State, not {state!r}"
        return
    following: Any = getattr(state, "next", None)
    if isinstance(following, str) or not is_a(following, Iterable):
        yield f"state {name!r}: next must be a list of names, not {following!r}"
        return
    listed: list[object] = list(following)
    yield from (f"state {name!r}: next lists {one!r}, no name" for one in listed if not _text(one))
    for one in {one for one in listed if _text(one) and listed.count(one) > 1}:
        yield f"state {name!r}: next lists {one!r} twice"


def _text(one: object) -> bool:
    return isinstance(one, str) and bool(one)


def _unknown_faults(states: Mapping[str, State], outcomes: Collection[str]) -> Iterator[str]:
    known = [*states, *outcomes]
    for name, state in states.items():
        for one in state.next:
            if one not in known:
                yield (
                    f"state {name!r}: next names {one!r}, which is no state and no outcome "
                    f"{choices('name', one, known)}"
                )


def _reach_faults(states: Mapping[str, State], outcomes: Collection[str]) -> Iterator[str]:
    start = next(iter(states))
    reached = _reachable(start, states)
    yield from (
        f"state {name!r} cannot be reached from the start {start!r}"
        for name in states
        if name not in reached
    )
    yield from (
        f"outcome {name!r} cannot be reached from the start {start!r}"
        for name in outcomes
        if name not in reached
    )
    yield from (
        f"state {name!r} has no path to an outcome"
        for name in states
        if not any(one in outcomes for one in _reachable(name, states))
    )


def _reachable(start: str, states: Mapping[str, State]) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(states[name].next if name in states else ())
    return found


@dataclass(slots=True)
class Walk:
    """Where one dispatch of a run stands among the states of its contract."""

    contract: str
    states: Mapping[str, State]
    outcomes: Collection[str]
    current: str | None = None

    def enter(self, name: object) -> None:
        """Go to a state, or stay in it; the name of an outcome is where the walk ends.

        Raises:
            Failure: type `INVALID_TRANSITION`, not retryable: the contract has no such arrow.
        """
        if not isinstance(name, str) or (name not in self.states and name not in self.outcomes):
            known = [*self.states, *self.outcomes]
            raise self._refuse(f"no state {name!r} {choices('state', str(name), known)}")
        if name != self.current and name not in self._following():
            raise self._refuse(self._misstep(name))
        self.current = name

    def end(self, outcome: str) -> None:
        """End with an outcome; a flow that told no state may end with any.

        Raises:
            Failure: as for `enter`.
        """
        if self.current is not None:
            self.enter(outcome)

    def _following(self) -> Collection[str]:
        if self.current is None:
            return [next(iter(self.states))]
        return self.states[self.current].next if self.current in self.states else ()

    def _misstep(self, name: str) -> str:
        following = ", ".join(repr(one) for one in self._following()) or "nothing"
        place = "the start" if self.current is None else repr(self.current)
        return f"{name!r} cannot follow {place} (next: {following})"

    def _refuse(self, why: str) -> Failure:
        return non_retryable(
            f"contract {self.contract!r}: state: {why}",
            type=INVALID_TRANSITION,
            details={"contract": self.contract, "from": self.current},
        )
