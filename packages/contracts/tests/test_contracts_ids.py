"""An id follows from the input, the same everywhere, or there is none."""

from __future__ import annotations

from datetime import date
from enum import Enum
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pytest

from iworkflow.contracts import (
    INVALID_WORKFLOW_ID,
    WorkflowContract,
    define_workflow_contract,
    workflow_id,
)
from iworkflow.core import Failure


class Colour(Enum):
    RED = "red"


class Input(TypedDict):
    code: str
    number: int
    key: UUID
    day: date
    colour: Colour


class Done(msgspec.Struct):
    ok: bool


def contract(template: str) -> WorkflowContract[Any, Done]:
    return define_workflow_contract(
        name="onboarding",
        task_queue="iprofile",
        workflow_id=template,
        input=Input,
        outcomes={"done": Done},
    )


DATA: Input = {
    "code": "a b",
    "number": -7,
    "key": UUID(int=1),
    "day": date(2025, 1, 31),
    "colour": Colour.RED,
}


@pytest.mark.parametrize(
    ("template", "id"),
    [
        ("x-{code}", "x-a b"),
        ("{number}/{day}", "-7/2025-01-31"),
        ("{key}", "00000000-0000-0000-0000-000000000001"),
        ("{colour}-{code}-{colour}", "red-a b-red"),
        ("always", "always"),
    ],
)
def test_an_id_is_made_of_the_text_on_the_wire(template: str, id: str) -> None:
    """A neighbour that only sees JSON builds the same id."""
    assert contract(template).workflow_id(DATA) == id
    assert workflow_id(contract(template), DATA) == id


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "is empty: ''"),
        (" \t ", "is blank: ' \\t '"),
        ("a\nb", "is text with control characters: 'a\\nb'"),
        ("a\0", "is text with control characters: 'a\\x00'"),
        ("a\x7f", "is text with control characters: 'a\\x7f'"),
        ("a\u2028b", "is text with control characters: 'a\\u2028b'"),
        (None, "does not fit: code: expected str, got None"),
        (7, "does not fit: code: expected str, got int"),
        (
            "\ud800",
            "does not fit: code: a string with a lone surrogate is not text and cannot be encoded",
        ),
    ],
)
def test_a_wrong_value_is_a_final_failure(value: Any, why: str) -> None:
    """It is of a type of its own, is never retried, and names contract and field."""
    with pytest.raises(Failure) as caught:
        contract("x-{code}").workflow_id({**DATA, "code": value})
    error = caught.value
    assert (
        (error.type, error.non_retryable)
        == (INVALID_WORKFLOW_ID, True)
        == (
            "InvalidWorkflowId",
            True,
        )
    )
    assert str(error).startswith("contract 'onboarding': workflow_id: field 'code' ")
    assert str(error).endswith(why) or why.split(",", maxsplit=1)[0] in str(error)
    assert error.details == {"contract": "onboarding", "field": "code"}


def test_a_missing_value_is_one_too() -> None:
    """Of a TypedDict as of an object of another class."""
    for data in ({}, object()):
        with pytest.raises(Failure, match="field 'code' is missing from the input") as caught:
            contract("x-{code}").workflow_id(data)
        assert caught.value.type == INVALID_WORKFLOW_ID
