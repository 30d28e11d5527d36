"""A contract that contradicts itself is refused where it is defined, with its name and field."""

from __future__ import annotations

import pickle
from collections import deque
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pytest

from iworkflow.contracts import (
    ContractError,
    Message,
    State,
    WorkflowContract,
    define_workflow_contract,
)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


Code = NewType("Code", str)


class Input(msgspec.Struct):
    code: str
    number: int
    key: UUID
    day: date
    colour: Colour
    level: Level
    word: Literal["a", 1]
    tagged: Annotated[str, msgspec.Meta(min_length=1)]
    new: Code
    ratio: float
    flag: bool
    at: datetime
    maybe: str | None
    items: list[str]
    nothing: Literal["a"] | None
    optional: str = "x"


@dataclass
class Created:
    organization_id: str
    ok: Literal[True] = True


@dataclass
class Refused:
    reason: str
    ok: Literal[False] = False


def define(**changes: Any) -> WorkflowContract[Any, Any]:
    """Define a sound contract with some of its parts changed."""
    parts: dict[str, Any] = {
        "name": "onboarding",
        "task_queue": "iprofile",
        "workflow_id": "org-{code}",
        "input": Input,
        "outcomes": {"created": Created, "refused": Refused},
        "states": {
            "checking": State(next=["provisioning", "refused"]),
            "provisioning": State(next=["created"]),
        },
    }
    return define_workflow_contract(**{**parts, **changes})


def faults(**changes: Any) -> list[str]:
    """The faults of a definition."""
    with pytest.raises(ContractError) as caught:
        define(**changes)
    assert all(
        line.startswith(f"contract {caught.value.contract!r}: ")
        for line in str(caught.value).splitlines()
    )
    return list(caught.value.faults)


def test_a_sound_contract_is_accepted() -> None:
    """What is checked below is right in the definition that the checks begin from."""
    go = Message[int]("do it", int)
    contract = define(signals={"go": go}, queries={"status": Message("", str)})
    assert repr(contract) == "<WorkflowContract 'onboarding' of 'iprofile'>"
    assert contract.signals["go"].name == "go"
    assert contract.signals["go"].contract == "onboarding"


@pytest.mark.parametrize(
    "field", ["code", "number", "key", "day", "colour", "level", "word", "tagged", "new"]
)
def test_these_types_stand_in_an_id(field: str) -> None:
    """Text, integers, UUIDs, dates, enums and Literals of text and integers."""
    assert define(workflow_id=f"x-{{{field}}}").id_template.text == f"x-{{{field}}}"


@pytest.mark.parametrize("field", ["ratio", "flag", "at", "maybe", "items", "nothing"])
def test_other_types_do_not(field: str) -> None:
    """What is optional, nested, or written in more than one way is refused, with the type."""
    (fault,) = faults(workflow_id=f"x-{{{field}}}")
    assert fault.startswith(f"workflow_id: field {field!r} is of type ")
    assert fault.endswith(
        "which cannot stand in an id; use str, int, UUID, date, an enum or a Literal of str or int"
    )


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("x-{optional}", "field 'optional' is optional in Input; an id needs a required one"),
        ("x-{}", "a field has no name; write {name}"),
        ("x-{code!r}", "field 'code' takes no format or conversion; write {code}"),
        ("x-{number:>3}", "field 'number' takes no format or conversion; write {number}"),
        ("{code}{number}", "fields 'code' and 'number' need text between them"),
        ("x-{code", "'x-{code' cannot be read: expected '}' before end of string"),
        ("", "must not be empty or blank: ''"),
        ("  ", "must not be empty or blank: '  '"),
        ("a\n{code}", "'a\\n{code}' holds control characters"),
        (7, "must be a string, not 7"),
    ],
)
def test_a_template_that_is_wrong(template: Any, fault: str) -> None:
    """Each fault of the template is named."""
    assert faults(workflow_id=template) == [f"workflow_id: {fault}"]


def test_a_template_field_that_is_missing_is_named_with_what_is_meant() -> None:
    """The fields of the input are listed, and the nearest is proposed."""
    (fault,) = faults(workflow_id="x-{cod}")
    assert fault.startswith("workflow_id: field 'cod' is not in Input (fields: 'code', 'number', ")
    assert fault.endswith("; did you mean 'code'?")
    (nested,) = faults(workflow_id="x-{code.a}")
    assert nested.startswith("workflow_id: field 'code.a' is not in Input (")


def test_braces_stand_doubled() -> None:
    """`{{` and `}}` are braces of the id."""
    assert define(workflow_id="{{{code}}}").workflow_id({"code": "a"}) == "{a}"


class Renamed(msgspec.Struct, rename="camel"):
    linked_by: str


def test_the_template_names_members_as_they_stand_in_json() -> None:
    """Neighbours in other languages fill in the same template."""
    assert define(input=Renamed, workflow_id="x-{linkedBy}").workflow_id(Renamed("a")) == "x-a"
    (fault,) = faults(input=Renamed, workflow_id="x-{linked_by}")
    assert "did you mean 'linkedBy'?" in fault


class Point(NamedTuple):
    x: str


@pytest.mark.parametrize("hint", [str, list[str], dict[str, str], Point, Input | Created])
def test_an_input_that_is_no_object_is_refused(hint: Any) -> None:
    """An input is an object in JSON."""
    assert any(fault.startswith("input: ") for fault in faults(input=hint, workflow_id="x"))


def test_an_input_that_cannot_be_read_back_is_refused() -> None:
    """The codec's own words are given."""
    Broken = TypedDict("Broken", {"code": deque[int]})  # noqa: UP013
    (fault,) = faults(input=Broken, workflow_id="x")
    assert fault.startswith("input: the codec cannot read back Broken: deque[int] ")


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (
            {
                "checking": State(next=["created", "refused"]),
                "lost": State(next=["created"]),
            },
            ["state 'lost' cannot be reached from the start 'checking'"],
        ),
        (
            {"checking": State(next=["created"])},
            ["outcome 'refused' cannot be reached from the start 'checking'"],
        ),
        (
            {
                "checking": State(next=["created", "refused", "stuck"]),
                "stuck": State(next=["stuck"]),
            },
            ["state 'stuck' has no path to an outcome"],
        ),
        (
            {
                "checking": State(next=["created", "refused", "stuck"]),
                "stuck": State(next=[]),
            },
            ["state 'stuck' has no path to an outcome"],
        ),
        (
            {"checking": State(next=["created", "refused", "chekking"])},
            [
                (
                    "state 'checking': next names 'chekking', which is no state and no outcome "
                    "(names: 'checking', 'created', 'refused'); did you mean 'checking'?"
                )
            ],
        ),
        (
            {
                "checking": State(next=["created", "refused"]),
                "created": State(next=["refused"]),
            },
            ["states: 'created' is the name of a state and of an outcome"],
        ),
        (
            {"checking": State(next=["created", "refused", "created"])},
            ["state 'checking': next lists 'created' twice"],
        ),
        (
            {"checking": State(next="created")},
            ["state 'checking': next must be a list of names, not 'created'"],
        ),
        (
            {"checking": State(next=["created", 7])},  # type: ignore[list-item]
            ["state 'checking': next lists 7, no name"],
        ),
        (
            {"checking": ["created"]},
            ["states: 'checking' must be a State, not ['created']"],
        ),
        (
            {"": State(next=["created", "refused"])},
            ["the name of a state must be a non-empty string, not ''"],
        ),
    ],
)
def test_states_that_are_wrong(states: Any, expected: list[str]) -> None:
    """Each fault of the states is named with its state or outcome."""
    assert faults(states=states) == expected


def test_states_may_be_left_out() -> None:
    """A contract without states draws no graph and has nothing to reach."""
    assert define(states={}).states == {}


class Same(TypedDict):
    organization_id: str
    note: NotRequired[str]


class Wider(TypedDict):
    organization_id: str
    more: str


class Left(TypedDict):
    kind: Literal["left"]
    value: str


class Right(TypedDict):
    kind: Literal["right", "middle"]
    value: str


class Tagged(msgspec.Struct, tag="t", tag_field="kind"):
    value: str


class AnOption(TypedDict):
    kind: NotRequired[Literal["option"]]
    value: str


_REMEDY = "give both a Literal member that differs, such as ok: Literal[True]"


@pytest.mark.parametrize(
    ("one", "other", "fault"),
    [
        (Created, Created, "outcomes 'a' and 'b' are one class; give each its own"),
        (
            Created,
            Same,
            "outcomes 'a' and 'b' have the same required fields and no Literal that differs; "
            + _REMEDY,
        ),
        (Created, Wider, f"outcome 'b' would also be read as 'a'; {_REMEDY}"),
        (Wider, Created, f"outcome 'a' would also be read as 'b'; {_REMEDY}"),
        (AnOption, Left, f"outcome 'b' would also be read as 'a'; {_REMEDY}"),
    ],
)
def test_outcomes_that_cannot_be_told_apart(one: Any, other: Any, fault: str) -> None:
    """Nothing on the wire says which outcome a value is, so its members have to."""
    assert faults(states={}, outcomes={"a": one, "b": other}) == [fault]


@pytest.mark.parametrize(
    ("one", "other"), [(Created, Refused), (Left, Right), (Left, Tagged), (Tagged, Created)]
)
def test_outcomes_that_can(one: Any, other: Any) -> None:
    """By a required member that the other lacks, a Literal, or a tag."""
    assert len(define(states={}, outcomes={"a": one, "b": other}).outcomes) == 2


def test_outcomes_that_are_none() -> None:
    """At least one, each an object, each with a name."""
    assert faults(states={}, outcomes={}) == [
        "outcomes: there is none; a process comes to something"
    ]
    assert faults(states={}, outcomes={"a": int}) == [
        (
            "outcome 'a': int is no object in JSON; use a dataclass, msgspec.Struct, TypedDict, "
            "attrs class or pydantic model"
        )
    ]
    assert faults(states={}, outcomes=[Created]) == [
        f"outcomes: must be a mapping of names, not {[Created]!r}"
    ]


def test_names_that_are_wrong() -> None:
    """The name and the task queue are what engines take."""
    assert faults(name="") == ["name: it must be a non-empty string, not ''"]
    assert faults(task_queue="No") == [
        "task_queue: app name 'No': a name has 3 to 256 characters of a-z, 0-9, '-' and '_'"
    ]


@pytest.mark.parametrize("sort", ["signal", "query"])
def test_messages_that_are_wrong(sort: str) -> None:
    """A message has a description and a type that the codec reads back."""
    part = {"signal": "signals", "query": "queries"}[sort]
    assert faults(**{part: {"go": int}}) == [
        f"{sort} 'go' must be a Message(description, type), not <class 'int'>"
    ]
    assert faults(**{part: {"go": Message(int, int)}}) == [  # type: ignore[arg-type]
        f"{sort} 'go': its description must be a string, not <class 'int'>"
    ]
    (fault,) = faults(**{part: {"go": Message("x", deque[int])}})
    assert fault.startswith(f"{sort} 'go': the codec cannot read back deque[int]")
    assert faults(**{part: {"": Message("x", int)}}) == [
        f"the name of a {sort} must be a non-empty string, not ''"
    ]


def test_the_key_of_the_states_is_the_contracts_own() -> None:
    """A query named `state` is refused next to states, and allowed without them."""
    assert faults(queries={"state": Message("x", str)}) == [
        "query 'state' is the contract's own, for its states; rename it"
    ]
    assert define(states={}, queries={"state": Message("x", str)})


def test_all_faults_are_told_at_once() -> None:
    """A contract is mended in one go; the error is data."""
    found = faults(task_queue="No", workflow_id="{cod}", outcomes={})
    assert len(found) == 5, found
    error = ContractError("onboarding", found)
    assert pickle.loads(pickle.dumps(error)).faults == error.faults


def test_two_type_arguments_are_enough_at_run_time() -> None:
    """An annotation that is evaluated does not need the types of signals and queries."""
    assert WorkflowContract[Input, Created]
    assert WorkflowContract[Input, Created, dict[str, Any], dict[str, Any]]
