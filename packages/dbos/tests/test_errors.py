"""What is tried again: a cut connection, and not what would fail for ever."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy

from iworkflow.dbos.errors import is_cut

AGAIN = ["08006", "40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03", "25P03"]
NEVER = ["54000", "57014", "57P04", "22P02", "23505", "25006", "28P01", "42P01"]
CODES = [*((code, True) for code in AGAIN), *((code, False) for code in NEVER)]
RAISED = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{}'; END $$"


@pytest.fixture
def engine(postgres: str) -> Generator[sqlalchemy.Engine]:
    """The driver through which DBOS speaks to Postgres."""
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(postgres)
    )
    yield engine
    engine.dispose()


@pytest.mark.parametrize(("code", "again"), CODES)
async def test_an_error_of_the_server(
    code: str, again: bool, connection: Any, engine: sqlalchemy.Engine
) -> None:
    """The same through both drivers."""
    with pytest.raises(asyncpg.PostgresError) as ours:
        await connection.execute(RAISED.format(code))
    with pytest.raises(sqlalchemy.exc.DBAPIError) as theirs, engine.begin() as used:
        used.exec_driver_sql(RAISED.format(code))
    assert (is_cut(ours.value), is_cut(theirs.value)) == (again, again)


async def test_a_statement_that_takes_too_long(engine: sqlalchemy.Engine) -> None:
    """A timeout of the server is no cut connection."""
    with pytest.raises(sqlalchemy.exc.OperationalError) as caught, engine.begin() as used:
        used.exec_driver_sql("SET LOCAL statement_timeout = 50; SELECT pg_sleep(5)")
    assert not is_cut(caught.value)


async def test_a_connection_that_is_cut(engine: sqlalchemy.Engine) -> None:
    """Cut while it is used, refused, or not there: it is tried again."""
    with pytest.raises(sqlalchemy.exc.OperationalError) as caught, engine.begin() as used:
        used.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
    assert is_cut(caught.value)
    nowhere = sqlalchemy.create_engine("postgresql+psycopg://postgres@127.0.0.1:1/postgres")
    with pytest.raises(sqlalchemy.exc.OperationalError) as caught:
        nowhere.connect()
    assert is_cut(caught.value)
    with pytest.raises(OSError) as refused:
        await asyncpg.connect("postgresql://postgres@127.0.0.1:1/postgres")
    assert is_cut(refused.value)
