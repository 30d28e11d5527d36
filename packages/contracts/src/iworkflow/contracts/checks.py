"""What is checked where a contract is defined: all of it, each fault with its field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from iworkflow.contracts.members import Field, fields_of
from iworkflow.contracts.outcomes import alike_faults
from iworkflow.contracts.parts import State, is_message
from iworkflow.contracts.states import STATE_KEY, state_faults
from iworkflow.contracts.template import IdTemplate, read_template
from iworkflow.core.checks import check_app_name
from iworkflow.core.codec import check_hint, show
from iworkflow.core.codec.hints import is_a
from iworkflow.core.naming import check_name

_OBJECTS = "a dataclass, msgspec.Struct, TypedDict, attrs class or pydantic model"


def check_definition(
    *,
    name: str,
    task_queue: str,
    template: str,
    input: Any,
    outcomes: Mapping[str, Any],
    states: Mapping[str, State],
    signals: Mapping[str, object],
    queries: Mapping[str, object],
) -> tuple[IdTemplate, list[str]]:
    """Check a definition; return its id template and what is wrong."""
    fields, faults = _object("input", input)
    faults = [*_text_faults(name, task_queue), *faults]
    read = IdTemplate("")
    if fields is not None:
        read, wrong = read_template(template, fields, show(input))
        faults += [f"workflow_id: {fault}" for fault in wrong]
    faults += _outcome_faults(outcomes)
    if _mapping("states", states, faults):
        faults += state_faults(states, tuple(outcomes) if is_a(outcomes, Mapping) else ())
        faults += _name_faults("state", states)
    faults += _message_faults("signal", signals)
    faults += _message_faults("query", queries)
    if states and STATE_KEY in queries:
        faults.append(f"query {STATE_KEY!r} is the contract's own, for its states; rename it")
    return read, faults


def _text_faults(name: str, task_queue: str) -> Iterator[str]:
    for field, check in (
        ("name", lambda: check_name("it", name)),
        ("task_queue", lambda: check_app_name(task_queue)),
    ):
        fault = _fault(check)
        if fault is not None:
            yield f"{field}: {fault}"


def _fault(check: Callable[[], object]) -> str | None:
    try:
        check()
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def _mapping(sort: str, value: object, faults: list[str]) -> bool:
    if not is_a(value, Mapping):
        faults.append(f"{sort}: must be a mapping of names, not {value!r}")
        return False
    return True


def _name_faults(sort: str, names: Mapping[str, object]) -> Iterator[str]:
    for name in names:
        fault = _fault(partial(check_name, f"the name of a {sort}", name))
        if fault is not None:
            yield fault


def _object(where: str, hint: Any) -> tuple[tuple[Field, ...] | None, list[str]]:
    """Read the members of a type that must be an object in JSON."""
    fault = _fault(lambda: check_hint(hint, where=where))
    if fault is not None:
        return None, [fault]
    fields = fields_of(hint)
    if fields is None:
        return None, [f"{where}: {show(hint)} is no object in JSON; use {_OBJECTS}"]
    return fields, []


def _outcome_faults(outcomes: Mapping[str, Any]) -> Iterator[str]:
    faults: list[str] = []
    if not _mapping("outcomes", outcomes, faults):
        yield from faults
        return
    if not outcomes:
        yield "outcomes: there is none; a process comes to something"
    yield from _name_faults("outcome", outcomes)
    sound: dict[str, Any] = {}
    for name, hint in outcomes.items():
        _, faults = _object(f"outcome {name!r}", hint)
        yield from faults
        if not faults:
            sound[name] = hint
    yield from alike_faults(sound)


def _message_faults(sort: str, messages: Mapping[str, object]) -> Iterator[str]:
    yield from _name_faults(sort, messages)
    for name, one in messages.items():
        fault = _message_fault(f"{sort} {name!r}", one)
        if fault is not None:
            yield fault


def _message_fault(where: str, one: object) -> str | None:
    if not is_message(one):
        return f"{where} must be a Message(description, type), not {one!r}"
    if not is_a(one.description, str):
        return f"{where}: its description must be a string, not {one.description!r}"
    return _fault(partial(check_hint, one.type, where=where))
