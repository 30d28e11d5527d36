"""The tables of our own, and the lock under which an engine is launched.

DBOS's migrations build indexes concurrently, and two of them at once can deadlock: so whoever
migrates holds one advisory lock, in every language of this family. The lock is polled: a blocking
wait for it would hold a snapshot that those index builds wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from dbos import DBOS
from iworkflow.dbos.database import connect
from iworkflow.dbos.settings import Location

_LOCK = "hashtext('iworkflow/dbos launch')"
_LOCK_POLL = 0.2

_TABLES = (
    "CREATE SCHEMA IF NOT EXISTS iwf",
    """CREATE TABLE IF NOT EXISTS iwf.birth (
        workflow_id text PRIMARY KEY, app text NOT NULL, patches text[] NOT NULL,
        at timestamptz NOT NULL DEFAULT now())""",
    """CREATE TABLE IF NOT EXISTS iwf.executor (
        executor_id text PRIMARY KEY, app text NOT NULL, silent_after double precision NOT NULL,
        beat timestamptz NOT NULL DEFAULT now(), started_at timestamptz NOT NULL DEFAULT now())""",
    "ALTER TABLE iwf.executor ADD COLUMN IF NOT EXISTS patches text[] NOT NULL DEFAULT '{}'",
    """CREATE TABLE IF NOT EXISTS iwf.attempt (
        workflow_id text NOT NULL, place integer NOT NULL, state text NOT NULL,
        PRIMARY KEY (workflow_id, place))""",
    """CREATE TABLE IF NOT EXISTS iwf.claim (
        workflow_id text NOT NULL, place integer NOT NULL, topic text NOT NULL,
        until double precision, message_uuid text,
        PRIMARY KEY (workflow_id, place))""",
)
_READY = """SELECT to_regclass('iwf.claim') IS NOT NULL
    AND to_regclass('dbos.workflow_status') IS NOT NULL"""


@asynccontextmanager
async def launch_lock(location: Location) -> AsyncGenerator[Any]:
    """Hold the lock inside an `async with`; its value is the connection that holds it."""
    connection = await connect(location)
    try:
        while not await connection.fetchval(f"SELECT pg_try_advisory_lock({_LOCK})"):
            await asyncio.sleep(_LOCK_POLL)
        yield connection
    finally:
        connection.terminate()


async def migrate(location: Location, connection: Any) -> None:
    """Bring DBOS's tables and ours up to date. The launch lock must be held."""
    await asyncio.to_thread(DBOS.migrate, location.url)
    for statement in _TABLES:
        await connection.execute(statement)


async def ensure(location: Location) -> None:
    """Make the tables unless they are there: what a client needs before the first worker."""
    connection = await connect(location)
    try:
        if await connection.fetchval(_READY):
            return
    finally:
        connection.terminate()
    async with launch_lock(location) as held:
        await migrate(location, held)
