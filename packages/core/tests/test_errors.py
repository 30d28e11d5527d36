"""The two errors are data: picklable, comparable, the same after every crossing."""

import copy
import pickle
from dataclasses import dataclass
from datetime import date

import pytest

from iworkflow.core.errors import ErrorData, Failure, FlowError, Reason, non_retryable


@dataclass
class Refusal:
    by: str
    on: date


class OwnFailure(Failure):
    pass


FAILURES = [
    Failure(),
    Failure("no"),
    Failure(
        "no", type="Refused", details={"a": 1}, non_retryable=True, retry_after=2.5, benign=True
    ),
    OwnFailure("own", type="X"),
]
ERRORS = [
    FlowError("m", reason="failed"),
    FlowError("m", reason=Reason.TIMEOUT, type="T", details=[1], exhausted=True),
]


@pytest.mark.parametrize("error", [*FAILURES, *ERRORS], ids=repr)
def test_an_error_survives_pickle_and_copy(error: Exception) -> None:
    """Equal, of the same class, with the same words."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert again == error
        assert type(again) is type(error)
        assert str(again) == str(error)


def test_errors_that_differ_are_not_equal() -> None:
    """Every field counts, and so does the class."""
    assert Failure("a") != Failure("b")
    assert Failure("a") != OwnFailure("a")
    assert Failure("a", type="X") != Failure("a")
    assert Failure("a", details=1) != Failure("a", details=2)
    assert FlowError("a", reason="failed") != FlowError("a", reason="timeout")
    assert FlowError("a", reason="failed") != Failure("a")
    assert FlowError("a", reason="failed") != FlowError("a", reason="failed", exhausted=True)


def test_the_text_of_an_error_is_its_message() -> None:
    """Nothing is added to it."""
    assert str(Failure("no", type="Refused")) == "no"
    assert str(FlowError("too late", reason="timeout")) == "too late"


def test_an_unknown_reason_is_refused() -> None:
    """There are five."""
    assert {str(reason) for reason in Reason} == {
        "failed",
        "timeout",
        "terminated",
        "already-started",
        "not-found",
    }
    with pytest.raises(ValueError, match="'late' is not a valid Reason"):
        FlowError("m", reason="late")


def test_non_retryable_is_shorthand() -> None:
    """For a failure after which no attempt follows."""
    assert non_retryable("no", type="X", details=1) == Failure(
        "no", type="X", details=1, non_retryable=True
    )


def test_details_are_read_as_a_type() -> None:
    """The same type on both errors, whether the details were encoded already or not."""
    refusal = Refusal("me", date(2024, 1, 1))
    assert Failure("no", details=refusal).details_as(Refusal) == refusal
    stored = FlowError("no", reason="failed", details={"by": "me", "on": "2024-01-01"})
    assert stored.details_as(Refusal) == refusal
    assert FlowError("no", reason="failed").details_as(None) is None


def test_details_that_do_not_fit() -> None:
    """Failure `DecodeError` names the path and the hint."""
    error = FlowError("no", reason="failed", details={"by": 3, "on": "2024-01-01"})
    with pytest.raises(Failure) as caught:
        error.details_as(Refusal)
    assert caught.value.type == "DecodeError"
    assert str(caught.value) == "details.by: Expected str, got int; it was read as Refusal"
    with pytest.raises(TypeError, match=r"^details: cannot encode an object of type object$"):
        Failure("no", details=object()).details_as(Refusal)


def test_error_data_crosses_as_json_and_back() -> None:
    """With its causes; what is at its default is left out."""
    data = ErrorData(
        "m",
        Reason.TIMEOUT,
        type="T",
        details={"a": 1},
        exhausted=True,
        cause=ErrorData("inner", Reason.FAILED),
    )
    assert ErrorData.from_json(data.to_json()) == data
    assert ErrorData("m", Reason.FAILED).to_json() == {"message": "m", "reason": "failed"}
    error = data.to_exception()
    assert error == FlowError("m", reason="timeout", type="T", details={"a": 1}, exhausted=True)
    assert error.__cause__ == FlowError("inner", reason="failed")


def test_the_error_of_a_child_as_its_parent_sees_it() -> None:
    """Reason failed; the type is the inner type, or the inner reason where there is none."""
    seen = ErrorData("m", Reason.TIMEOUT, exhausted=True).as_failed(prefix="child 'c': ")
    assert seen == ErrorData("child 'c': m", Reason.FAILED, type="timeout")
    assert ErrorData("m", Reason.FAILED, type="T").as_failed().type == "T"
