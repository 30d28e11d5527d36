"""The two errors of the port, as data: picklable, comparable, the same on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar, cast

from iworkflow.core.jsonvalue import JsonValue

if TYPE_CHECKING:
    from typing_extensions import TypeForm

R = TypeVar("R")

MAX_CAUSES = 8
"""How many causes of an error are carried; deeper ones are cut."""


class Reason(StrEnum):
    """Why the port raised a `FlowError`."""

    FAILED = "failed"
    TIMEOUT = "timeout"
    TERMINATED = "terminated"
    ALREADY_STARTED = "already-started"
    NOT_FOUND = "not-found"


class Failure(Exception):
    """What a step or a flow raises to fail with a type and details of its own.

    Args:
        message: what `str()` gives.
        type: the name by which callers tell failures apart.
        details: a JSON value, or any value that the codec carries.
        non_retryable: no further attempt of the step is made.
        retry_after: seconds until the next attempt, instead of the step's own wait.
        benign: an expected failure: the same outcome, but nothing is logged as an error.
    """

    def __init__(
        self,
        message: str = "",
        *,
        type: str = "Failure",
        details: Any = None,
        non_retryable: bool = False,
        retry_after: float | None = None,
        benign: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.type = type
        self.details = details
        self.non_retryable = non_retryable
        self.retry_after = retry_after
        self.benign = benign

    def details_as(self, type: TypeForm[R]) -> R:
        """Read the details as a type, the way the catcher of the error will read them.

        Raises:
            Failure: type `DecodeError`: they do not fit.
            TypeError: they cannot be encoded, or the type cannot be read back.
        """
        from iworkflow.core.codec import encode

        return _details_as(encode(self.details, where="details"), type)

    def _fields(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "details": self.details,
            "non_retryable": self.non_retryable,
            "retry_after": self.retry_after,
            "benign": self.benign,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.__class__, self.message, self._fields())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Failure)
            and self.__class__ is other.__class__
            and self.message == other.message
            and self._fields() == other._fields()
        )

    __hash__ = Exception.__hash__


def non_retryable(message: str, type: str = "Failure", details: Any = None) -> Failure:
    """Build a `Failure` after which no further attempt is made."""
    return Failure(message, type=type, details=details, non_retryable=True)


class FlowError(Exception):
    """What the port raises: a step, a child, a run or a message came to nothing.

    Args:
        message: what `str()` gives.
        reason: why.
        type: the failure's type, or the class name of the exception below.
        details: a JSON value; `details_as` decodes it.
        exhausted: the attempts ran out (false: the error was final).
    """

    def __init__(
        self,
        message: str = "",
        *,
        reason: Reason | str,
        type: str | None = None,
        details: JsonValue = None,
        exhausted: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = Reason(reason)
        self.type = type
        self.details = details
        self.exhausted = exhausted

    def details_as(self, type: TypeForm[R]) -> R:
        """Read the details as a type.

        Raises:
            Failure: type `DecodeError`: they do not fit.
            TypeError: the type cannot be read back.
        """
        return _details_as(self.details, type)

    def _fields(self) -> dict[str, Any]:
        return {
            "reason": self.reason,
            "type": self.type,
            "details": self.details,
            "exhausted": self.exhausted,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.__class__, self.message, self._fields())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FlowError)
            and self.__class__ is other.__class__
            and self.message == other.message
            and self._fields() == other._fields()
        )

    __hash__ = Exception.__hash__


def _details_as(details: JsonValue, type: TypeForm[R]) -> R:
    from iworkflow.core.codec import decode

    return cast("R", decode(details, type, where="details"))


def _rebuild(cls: type[Exception], message: str, fields: dict[str, Any]) -> Exception:
    return cls(message, **fields)


@dataclass(frozen=True, slots=True)
class ErrorData:
    """A `FlowError` with its causes, as it crosses the port."""

    message: str
    reason: Reason
    type: str | None = None
    details: JsonValue = None
    exhausted: bool = False
    cause: ErrorData | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the wire form; members at their default are left out."""
        data: dict[str, JsonValue] = {"message": self.message, "reason": str(self.reason)}
        if self.type is not None:
            data["type"] = self.type
        if self.details is not None:
            data["details"] = self.details
        if self.exhausted:
            data["exhausted"] = True
        if self.cause is not None:
            data["cause"] = self.cause.to_json()
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ErrorData:
        """Read the wire form; members that are missing take their default."""
        cause = data.get("cause")
        return cls(
            message=str(data.get("message", "")),
            reason=Reason(data.get("reason", Reason.FAILED)),
            type=cast("str | None", data.get("type")),
            details=cast("JsonValue", data.get("details")),
            exhausted=bool(data.get("exhausted", False)),
            cause=None if cause is None else cls.from_json(cause),
        )

    def to_exception(self) -> FlowError:
        """Build the `FlowError`, its causes as `__cause__`."""
        error = FlowError(
            self.message,
            reason=self.reason,
            type=self.type,
            details=self.details,
            exhausted=self.exhausted,
        )
        if self.cause is not None:
            error.__cause__ = self.cause.to_exception()
        return error

    def as_failed(self, *, prefix: str = "") -> ErrorData:
        """Return the error as its caller sees it: reason `failed`, the inner reason as type."""
        return replace(
            self,
            message=f"{prefix}{self.message}",
            reason=Reason.FAILED,
            type=self.type if self.type is not None else str(self.reason),
            exhausted=False,
        )
