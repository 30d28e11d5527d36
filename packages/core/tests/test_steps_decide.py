"""What follows a failed attempt, and how its exception becomes data."""

import asyncio
from datetime import timedelta

import pytest

from iworkflow.core.codec import dumps
from iworkflow.core.errors import MAX_CAUSES, ErrorData, Failure, FlowError, Reason, non_retryable
from iworkflow.core.options import StepPolicy
from iworkflow.core.steps import AttemptState, GiveUp, Retry, StepError, decide, describe_exception
from iworkflow.core.steps.describe import MAX_MESSAGE, timed_out
from iworkflow.core.steps.retry import LONGEST_WAIT

ERROR = StepError(ErrorData("no", Reason.FAILED, "Oops", {"n": 1}))


class Refused(Exception):
    pass


class RefusedForGood(Refused):
    pass


def described(exc: BaseException, *names: str) -> StepError:
    return describe_exception(exc, StepPolicy(non_retryable_types=names))


def waits(policy: StepPolicy, count: int) -> list[float]:
    found = []
    for attempt in range(1, count + 1):
        decision = decide(policy, attempt=attempt, elapsed=0, error=ERROR)
        assert isinstance(decision, Retry)
        found.append(decision.delay)
    return found


def given_up(policy: StepPolicy, attempt: int, elapsed: float, error: StepError) -> ErrorData:
    decision = decide(policy, attempt=attempt, elapsed=elapsed, error=error)
    assert isinstance(decision, GiveUp)
    return decision.error


def test_defaults() -> None:
    """Three attempts, 0.2 s apart; the third failure is exhausted and keeps type and details."""
    assert waits(StepPolicy(), 2) == [0.2, 0.2]
    error = given_up(StepPolicy(), 3, 0.5, ERROR)
    assert error == ErrorData("no", Reason.FAILED, "Oops", {"n": 1}, exhausted=True)


def test_without_limit() -> None:
    """Without a limit there is always another attempt."""
    policy = StepPolicy(attempts=None)
    assert decide(policy, attempt=10**6, elapsed=0, error=ERROR) == Retry(0.2)


def test_waits_grow_to_their_maximum() -> None:
    """Waits grow by the factor, up to the maximum."""
    policy = StepPolicy(attempts=None, retry_interval=1, backoff=2, max_retry_interval=5)
    assert waits(policy, 5) == [1, 2, 4, 5, 5]


def test_waits_never_overflow() -> None:
    """Growth without a maximum ends at the longest wait, however many attempts there were."""
    policy = StepPolicy(attempts=None, retry_interval=1, backoff=1e6)
    assert decide(policy, attempt=5000, elapsed=0, error=ERROR) == Retry(LONGEST_WAIT)


def test_retry_after_replaces_the_next_wait() -> None:
    """`retry_after` counts even over the maximum, and zero is no wait."""
    policy = StepPolicy(max_retry_interval=1)
    for seconds in (0, 7.5):
        error = described(Failure("busy", retry_after=seconds))
        assert decide(policy, attempt=1, elapsed=0, error=error) == Retry(seconds)


def test_a_final_error_is_not_exhausted() -> None:
    """A final error ends the step at once, also at the last attempt, and is not exhausted."""
    for attempt in (1, 3):
        error = given_up(StepPolicy(), attempt, 0, described(non_retryable("no", "Refused")))
        assert (error.type, error.exhausted, error.reason) == ("Refused", False, Reason.FAILED)


def test_no_wait_passes_total_timeout() -> None:
    """If the next wait would pass it: timeout now, last type and details, not exhausted."""
    policy = StepPolicy(attempts=None, retry_interval=1, total_timeout=10)
    assert decide(policy, attempt=3, elapsed=9, error=ERROR) == Retry(1)
    error = given_up(policy, 3, 9.01, ERROR)
    assert (error.reason, error.type, error.details) == (Reason.TIMEOUT, "Oops", {"n": 1})
    assert not error.exhausted
    assert "10 s" in error.message
    assert error.message.endswith(": no")
    late = described(Failure("busy", retry_after=20))
    assert given_up(policy, 1, 0, late).reason == Reason.TIMEOUT


def test_attempts_run_out_before_time_does() -> None:
    """The last attempt, also after `total_timeout`, is exhausted; a final error stays final."""
    policy = StepPolicy(attempts=2, total_timeout=10)
    assert given_up(policy, 2, 11, ERROR).exhausted
    final = given_up(policy, 1, 11, described(non_retryable("no")))
    assert final.reason == Reason.FAILED


def test_the_last_attempt_timed_out() -> None:
    """If the last attempt took too long: reason timeout, exhausted."""
    error = given_up(StepPolicy(), 3, 0, timed_out("too long"))
    assert error == ErrorData("too long", Reason.TIMEOUT, exhausted=True)


@pytest.mark.parametrize("names", ["RefusedForGood", "Refused", "Exception"])
def test_types_match_class_and_bases(names: str) -> None:
    """A type is final by the name of its class or of any base."""
    assert not described(RefusedForGood("no"), names).retryable


def test_types_that_do_not_match() -> None:
    """A sibling or a subclass's name does not make an error final."""
    assert described(Refused("no"), "RefusedForGood", "ValueError", "object").retryable


def test_types_match_a_failures_type() -> None:
    """The type that a failure gives itself counts as well as its class."""
    assert not described(Failure("no", type="Quota"), "Quota").retryable
    assert not described(Failure("no", type="Quota"), "Failure").retryable
    assert described(Failure("no", type="Quota"), "quota").retryable


def test_a_plain_exception() -> None:
    """Type is the class name, the message what `str` gives."""
    assert described(Refused("not you")).error == ErrorData("not you", Reason.FAILED, "Refused")


def test_a_failure() -> None:
    """Type, details and flags of a failure are carried."""
    failure = Failure("no", type="Quota", details={"left": 0}, benign=True, retry_after=3)
    error = described(failure)
    assert error.error == ErrorData("no", Reason.FAILED, "Quota", {"left": 0})
    assert (error.benign, error.retry_after, error.retryable) == (True, 3, True)


def test_a_subclass_of_failure_goes_by_its_name() -> None:
    """A subclass that sets no type has its class name for one."""

    class Bounced(Failure):
        pass

    assert described(Bounced("back")).error.type == "Bounced"
    assert described(Bounced("back", type="Other")).error.type == "Other"


def test_a_failure_without_its_attributes() -> None:
    """A subclass of `Failure` or `FlowError` that never called its base is described too."""

    class Odd(Failure):
        def __init__(self) -> None:
            pass

    class Odder(FlowError):
        def __init__(self) -> None:
            pass

    assert described(Odd()).error.type == "Odd"
    assert described(Odder()).error.type == "Odder"


def test_a_flow_error_raised_in_a_step() -> None:
    """A `FlowError` of a client used in a step fails the step: type is its own, or its reason."""
    error = described(FlowError("gone", reason="not-found", exhausted=True)).error
    assert error == ErrorData("gone", Reason.FAILED, "not-found")
    typed = FlowError("no", reason="failed", type="Quota", details=[1])
    assert described(typed).error == ErrorData("no", Reason.FAILED, "Quota", [1])


@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), "soon", True])
def test_a_retry_after_that_means_nothing(wait: object) -> None:
    """A `retry_after` that is no duration is left aside."""
    assert described(Failure("no", retry_after=wait)).retry_after is None  # type: ignore[arg-type]


def test_retry_after_as_a_timedelta() -> None:
    """`retry_after` may be a timedelta."""
    failure = Failure("no", retry_after=timedelta(minutes=1))  # type: ignore[arg-type]
    assert described(failure).retry_after == 60


def test_causes() -> None:
    """Causes are carried, explicit or by context; `from None` cuts them."""
    try:
        try:
            raise KeyError("k")
        except KeyError as key:
            raise Failure("mid", details=[1]) from key
    except Failure as mid:
        top = ValueError("top")
        top.__context__ = mid
    error = described(top).error
    assert error.cause == ErrorData(
        "mid", Reason.FAILED, "Failure", [1], cause=ErrorData("'k'", Reason.FAILED, "KeyError")
    )
    top.__suppress_context__ = True
    assert described(top).error.cause is None


def test_cyclic_and_deep_causes() -> None:
    """Cycles are cut, and so is what is deeper than the limit."""
    one, two = ValueError("1"), ValueError("2")
    one.__cause__, two.__cause__ = two, one
    error = described(one).error
    assert error.cause is not None
    assert error.cause.cause is None
    chain = ValueError("0")
    for n in range(100):
        following = ValueError(str(n))
        following.__cause__ = chain
        chain = following
    depth, below = 0, described(chain).error.cause
    while below is not None:
        depth, below = depth + 1, below.cause
    assert depth == MAX_CAUSES


def test_details_that_cannot_be_encoded() -> None:
    """Such details become a note; type and message of the failure are not lost."""
    error = described(Failure("no", type="Quota", details={"at": object()})).error
    assert (error.message, error.type) == ("no", "Quota")
    assert isinstance(error.details, dict)
    assert "object object" in str(error.details["unencodable"])
    assert "object" in str(error.details["why"])


def test_too_large_an_error() -> None:
    """What is over the limit is cut, causes first, then details; the failure is not lost."""
    failure = Failure("no", type="Quota", details="d" * 600)
    failure.__cause__ = Failure("below", details="c" * 600)
    error = describe_exception(failure, max_payload=1000).error
    assert (error.cause, error.details) == (None, "d" * 600)
    error = describe_exception(failure, max_payload=500).error
    assert error.type == "Quota"
    assert "too_large" in str(error.details)
    assert len(described(ValueError("x" * 10**7)).error.message) <= MAX_MESSAGE + 3


def test_hostile_exceptions() -> None:
    """A broken `str`, a broken `repr` and lone surrogates are described."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("never")

        __repr__ = __str__

    assert "RuntimeError" in described(Mute()).error.message
    assert described(Failure("x", details=Mute())).error.type == "Failure"
    dumps(described(ValueError("\ud800")).error.to_json())


def test_an_exception_group() -> None:
    """A group names its members; the first one is its cause."""
    group = ExceptionGroup("two", [ValueError("a"), ExceptionGroup("in", [KeyError("b")])])
    error = described(group).error
    assert error.type == "ExceptionGroup"
    assert "ValueError: a" in error.message
    assert "KeyError: 'b'" in error.message
    assert error.cause == ErrorData("a", Reason.FAILED, "ValueError")


def test_members_of_a_group_count() -> None:
    """One final member makes a group final; it is benign if all are; the longest wait counts."""
    benign, plain = Failure("b", benign=True, retry_after=2), ValueError("v")
    assert not described(ExceptionGroup("g", [plain, non_retryable("no")])).retryable
    assert not described(ExceptionGroup("g", [plain, Refused("no")]), "Refused").retryable
    assert described(ExceptionGroup("g", [benign, benign])).benign
    assert not described(ExceptionGroup("g", [benign, plain])).benign
    several = ExceptionGroup("g", [Failure("a", retry_after=1), benign, plain])
    assert described(several).retry_after == 2


@pytest.mark.parametrize(
    "exc", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError("mine")]
)
def test_exceptions_that_end_programs(exc: BaseException) -> None:
    """They are described as any other, and retried."""
    error = described(exc)
    assert error.error.type == type(exc).__name__
    assert error.retryable


def test_state_round_trips() -> None:
    """An attempt's state survives its wire form, whole or at its defaults."""
    whole = AttemptState(2, 1.5, 3.5, {"page": 7}, ErrorData("no", Reason.TIMEOUT, "T", [1]))
    for state in (whole, AttemptState(0, 1.0)):
        assert AttemptState.from_json(state.to_json()) == state
