"""Turn whatever a step raised into data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD, dumps, encode
from iworkflow.core.errors import MAX_CAUSES, ErrorData, Failure, FlowError, Reason
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.options import StepPolicy, seconds

MAX_MESSAGE = 16_384
"""Characters of an error's message that are carried; the rest is cut."""

_MAX_LEAVES = 64
_SHOWN_LEAVES = 5
_NOT_A_NAME = frozenset({"object"})


@dataclass(frozen=True, slots=True)
class StepError:
    """What one attempt failed with, and what that means for the next."""

    error: ErrorData
    retryable: bool = True
    retry_after: float | None = None
    """Seconds until the next attempt, instead of the step's own wait."""
    benign: bool = False
    exception: BaseException | None = field(default=None, compare=False, repr=False)
    """For the log only."""


def describe_exception(
    exc: BaseException,
    policy: StepPolicy | None = None,
    *,
    max_payload: int = DEFAULT_MAX_PAYLOAD,
) -> StepError:
    """Describe any exception of a step; it never raises.

    An error is final if it is a non-retryable `Failure`, or if `policy.non_retryable_types`
    holds its class name, that of any of its bases, or its failure type. Of an exception group
    every member counts: one that is final makes the group final, and it is benign if all are.

    The type is the failure's own, or the class name; a subclass of `Failure` that sets no type
    goes by its class name. Causes are carried, cycles cut, `MAX_CAUSES` deep. Details that
    cannot be encoded, or are too large, are replaced by a note: the failure itself is not lost.
    """
    leaves = list(_leaves(exc))
    final = set(() if policy is None else policy.non_retryable_types)
    names = {name for one in (exc, *leaves) for name in _names(one)}
    waits = [wait for leaf in leaves if (wait := _wait(leaf)) is not None]
    error = _data(exc, depth=0, seen=set())
    return StepError(
        error=_fitting(replace(error, reason=Reason.FAILED, exhausted=False), max_payload),
        retryable=not (any(_flag(leaf, "non_retryable") for leaf in leaves) or final & names),
        retry_after=max(waits, default=None),
        benign=all(_flag(leaf, "benign") for leaf in leaves),
        exception=exc,
    )


def final_error(message: str, type: str, exception: BaseException | None = None) -> StepError:
    """Build an error after which no further attempt is made."""
    error = ErrorData(message=message, reason=Reason.FAILED, type=type)
    return StepError(error=error, retryable=False, exception=exception)


def timed_out(message: str) -> StepError:
    """Build the error of an attempt that took too long."""
    return StepError(error=ErrorData(message=message, reason=Reason.TIMEOUT))


def _is_group(exc: BaseException) -> bool:
    return isinstance(exc, BaseExceptionGroup)


def _leaves(exc: BaseException) -> Iterator[BaseException]:
    stack, left = [exc], _MAX_LEAVES
    while stack and left:
        one = stack.pop()
        if _is_group(one):
            group = cast("BaseExceptionGroup[BaseException]", one)
            stack.extend(reversed(group.exceptions))
        else:
            left -= 1
            yield one


def _names(exc: BaseException) -> Iterator[str]:
    for cls in type(exc).__mro__:
        if cls.__name__ not in _NOT_A_NAME:
            yield cls.__name__
    if isinstance(exc, Failure | FlowError):
        yield _type(exc)


def _type(exc: BaseException) -> str:
    name = type(exc).__name__
    # A subclass with an `__init__` of its own may lack the attributes.
    given = getattr(exc, "type", None) if isinstance(exc, Failure | FlowError) else None
    if isinstance(exc, FlowError) and given is None:
        return str(getattr(exc, "reason", name))
    return name if given is None or given == "Failure" else str(given)


def _flag(exc: BaseException, name: str) -> bool:
    return isinstance(exc, Failure) and bool(getattr(exc, name, False))


def _wait(exc: BaseException) -> float | None:
    wait = getattr(exc, "retry_after", None) if isinstance(exc, Failure) else None
    try:
        return None if wait is None else seconds("retry_after", wait, zero=True)
    except (TypeError, ValueError):
        return None


def _data(exc: BaseException, *, depth: int, seen: set[int]) -> ErrorData:
    seen.add(id(exc))
    below = _cause(exc)
    known = isinstance(exc, FlowError)
    cut = below is None or id(below) in seen or depth >= MAX_CAUSES
    return ErrorData(
        message=_message(exc),
        reason=getattr(exc, "reason", Reason.FAILED) if known else Reason.FAILED,
        type=_type(exc),
        details=_details(exc),
        exhausted=known and bool(getattr(exc, "exhausted", False)),
        cause=None if below is None or cut else _data(below, depth=depth + 1, seen=seen),
    )


def _cause(exc: BaseException) -> BaseException | None:
    if _is_group(exc):
        return next(_leaves(exc), None)
    if exc.__cause__ is not None or exc.__suppress_context__:
        return exc.__cause__
    return exc.__context__


def _message(exc: BaseException) -> str:
    text = text_of(exc)
    if _is_group(exc):
        leaves = list(_leaves(exc))
        shown = [f"{_type(leaf)}: {text_of(leaf)}" for leaf in leaves[:_SHOWN_LEAVES]]
        text = "; ".join([text, *shown, *(["..."] if len(leaves) > _SHOWN_LEAVES else [])])
    if len(text) > MAX_MESSAGE:
        text = text[:MAX_MESSAGE] + "..."
    return text


def text_of(exc: BaseException) -> str:
    """Return what `str` gives, as text that any engine can keep, whatever `__str__` does."""
    try:
        text = str(exc)
    except Exception as broken:
        text = f"<no message: its str() raised {type(broken).__name__}>"
    # A lone surrogate is no text to any engine.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _details(exc: BaseException) -> JsonValue:
    details = getattr(exc, "details", None) if isinstance(exc, Failure | FlowError) else None
    if details is None:
        return None
    try:
        return encode(details, where="details of a failure")
    except Exception as error:
        return {"unencodable": _repr(details), "why": text_of(error)}


def _repr(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as broken:
        return f"<{type(value).__name__}: its repr() raised {type(broken).__name__}>"
    return text[:1000].encode("utf-8", "backslashreplace").decode("utf-8")


def _fitting(error: ErrorData, limit: int) -> ErrorData:
    size = len(dumps(error.to_json()))
    if size <= limit:
        return error
    if error.cause is not None:
        return _fitting(replace(error, cause=None), limit)
    if error.details is not None:
        return replace(error, details={"too_large": size, "max_payload": limit})
    return error
