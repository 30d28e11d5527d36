"""The errors of DBOS and of Postgres, turned into ours in this one place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import asyncpg
import psycopg
import sqlalchemy.exc

from dbos import error as dbos_error
from iworkflow.core.errors import ErrorData, FlowError, Reason
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.dbos.settings import Location

_LOST: Final = (
    dbos_error.DBOSWorkflowConflictIDError,
    dbos_error.DBOSWorkflowCancelledError,
)
_CUT: Final = (
    OSError,
    asyncio.TimeoutError,
    psycopg.OperationalError,
    sqlalchemy.exc.TimeoutError,  # all its connections are in use
)
_CUT_CLASSES: Final = ("08", "53")  # connections, resources of the server
_CUT_STATES: Final = (
    "57P01",  # the server is shut down, by an administrator
    "57P02",  # by a crash
    "57P03",  # or has not started yet
    "57P05",  # the session was idle for too long
    "25P03",  # its transaction was
    "40001",  # the transaction was rolled back for another one
    "40003",
    "40P01",
    "55P03",  # a lock was not to be had
)
_GONE: Final = (
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.UndefinedTableError,
)


class LostRunError(Exception):
    """This process no longer owns the run: nothing more of it may be recorded here."""


class Unrecorded(BaseException):
    """Carries an error out of a step of DBOS, which records every `Exception` as its outcome."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class FailedFlowError(Exception):
    """How a failed flow reaches DBOS, which stores `data` with the run."""

    def __init__(self, error: ErrorData) -> None:
        super().__init__(error.message)
        self.data: dict[str, JsonValue] = error.to_json()


def is_lost(error: BaseException) -> bool:
    """Tell whether the engine says that the run belongs to another execution, or to none."""
    return isinstance(error, _LOST)


def is_cut(error: BaseException | None) -> bool:
    """Tell whether the connection was cut or the server is away, so that a retry may help.

    What the server says about a statement is no cut: it would say so for ever.
    """
    # SQLAlchemy's, through which DBOS speaks to Postgres; it wraps the driver's.
    error = getattr(error, "orig", None) or error
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return state.startswith(_CUT_CLASSES) or state in _CUT_STATES
    if isinstance(error, asyncpg.InterfaceError):  # also what says that an argument is wrong
        return "closed" in str(error)
    return isinstance(error, _CUT)


def is_gone(error: BaseException | None) -> bool:
    """Tell whether the database or its tables were dropped, so that no retry will help."""
    while error is not None and not isinstance(error, _GONE):
        error = error.__cause__
    return error is not None


def not_found(workflow_id: str) -> FlowError:
    """Build the error of a run that is not there."""
    return FlowError(f"no flow {workflow_id!r}", reason=Reason.NOT_FOUND)


def finished(workflow_id: str) -> FlowError:
    """Build the error of a message to a run that has ended."""
    return FlowError(f"flow {workflow_id!r} is finished", reason=Reason.NOT_FOUND)


def is_taken(error: Exception) -> bool:
    """Tell whether the id of a start is in use."""
    return isinstance(error, dbos_error.DBOSWorkflowIDInUseError)


def is_missing(error: Exception) -> bool:
    """Tell whether the destination of a message is missing."""
    return isinstance(error, dbos_error.DBOSNonExistentWorkflowError)


def unreachable(location: Location, error: BaseException) -> Exception:
    """Build what a user reads when the database cannot be used: where, why, and what to do.

    The password is in none of it.
    """
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):
        why, remedy = "login refused", "check user and password in the URL"
    elif isinstance(error, asyncpg.InvalidCatalogNameError):
        why, remedy = "no such database", "create it"
    else:
        why, remedy = _cause(error), "start it"
    return ConnectionError(
        f"cannot reach Postgres at {location.shown} ({why}); "
        f"{remedy} or set DBOS_SYSTEM_DATABASE_URL"
    )


def _cause(error: BaseException) -> str:
    known: tuple[tuple[type[BaseException], Callable[[BaseException], str]], ...] = (
        (ConnectionRefusedError, lambda _: "connection refused"),
        (FileNotFoundError, lambda _: "no such socket"),
        (TimeoutError, lambda _: "no answer"),
    )
    for kind, text in known:
        if isinstance(error, kind):
            return text(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
