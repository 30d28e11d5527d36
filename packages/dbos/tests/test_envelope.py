"""The records of a run, in and out of DBOS's rows."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from iworkflow.core.errors import ErrorData, Reason
from iworkflow.core.options import StepPolicy
from iworkflow.core.port import Outcome, Receive, RunStep
from iworkflow.dbos.envelope import FOREIGN, ORDER, pack, pack_order, read_row, unpack
from iworkflow.dbos.messages import _read
from iworkflow.dbos.sending import Keys

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
STEP = RunStep("compose", [1], StepPolicy(), "abc")


@given(JSON, st.floats(0, 1e10))
def test_a_value_comes_back(value: object, at: float) -> None:
    """Kind, name, fingerprint, value and time of a completion survive their row."""
    record = read_row("compose", json.dumps(pack(STEP, Outcome(value), at)), "portable_json")
    assert (record.kind, record.name, record.digest) == ("step", "compose", "abc")
    assert (record.completion.outcome, record.completion.at) == (Outcome(value), at)


def test_an_error_comes_back() -> None:
    """With reason, type, details and causes."""
    error = ErrorData(
        "late",
        Reason.TIMEOUT,
        "Late",
        {"by": 3},
        exhausted=True,
        cause=ErrorData("", Reason.FAILED),
    )
    assert unpack(pack(STEP, Outcome(error=error), 1.5)).completion.outcome.error == error


def test_an_order_comes_back() -> None:
    """Its places keep their order."""
    record = unpack(pack_order([5, 3, 4], 2.0))
    assert (record.kind, record.order) == (ORDER, (5, 3, 4))


def test_a_row_of_another_program() -> None:
    """It fits no operation of ours, whatever it holds, and is not unpickled."""
    for output, how in (("gASVBAAA", "py_pickle"), ("[1]", "portable_json"), (None, None)):
        record = read_row("DBOS.sleep", output, how)
        assert (record.kind, record.name) == (FOREIGN, "DBOS.sleep")
        assert record.kind != Receive.kind


def test_a_pickled_message() -> None:
    """It fails the receive, named by its topic, and is not unpickled."""
    error = _read("news", "gASVBAAA", "py_pickle").error
    assert error is not None
    assert error.type == "DecodeError"
    assert error.message == ("message of topic 'news': stored as 'py_pickle', not as portable JSON")


def test_keys_sort_by_time() -> None:
    """A later key of a process sorts after an earlier one."""
    keys = Keys()
    made = [keys.fresh() for _ in range(1000)]
    assert made == sorted(made)
    assert len(set(made)) == 1000
