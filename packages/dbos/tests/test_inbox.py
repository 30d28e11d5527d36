"""Claims on messages, without a worker: a row that looks owned, and the inbox of its owner."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

import pytest

from iworkflow.core.definition import Target
from iworkflow.core.port import Outcome, Receive
from iworkflow.dbos import DbosClient, runs
from iworkflow.dbos.client import Link
from iworkflow.dbos.errors import LostRunError
from iworkflow.dbos.messages import Inbox, Owner
from iworkflow.dbos.settings import Location, Polling

OWN = """UPDATE dbos.workflow_status SET status = 'PENDING', owner_xid = $2, queue_name = NULL
    WHERE workflow_uuid = $1"""


@pytest.fixture
async def link(postgres: str, client: DbosClient, app_name: str) -> AsyncGenerator[Link]:
    """A connection, after the client has made the tables and a run with two messages."""
    handle = await client.start(Target(app_name, "any"), id=app_name)
    await handle.signal("t", "first")
    await handle.signal("t", "second")
    link = Link(Location(postgres, "test"), Polling(results=0.2))
    await link.open()
    await link.database.execute(OWN, app_name, "me")
    try:
        yield link
    finally:
        await link.close()


def inbox(link: Link, run: str, token: str = "me") -> Inbox:
    return Inbox(link.database, link.wakeups, Owner(run, token))


async def take(inbox: Inbox, place: int, operation: Receive) -> Outcome:
    return (await inbox.take(place, operation)).outcome


def message(text: str) -> Outcome:
    return Outcome({"message": text})


async def test_a_place_keeps_its_message(link: Link, app_name: str) -> None:
    """Performed again after a crash, the operation of a place gets the same message."""
    assert await take(inbox(link, app_name), 5, Receive("t")) == message("first")
    again = inbox(link, app_name)
    assert await take(again, 5, Receive("t")) == message("first")
    assert await take(again, 6, Receive("t")) == message("second")


async def test_a_cancelled_receive_gives_its_message_back(link: Link, app_name: str) -> None:
    """The message goes to the next receive, in its old order."""
    mine = inbox(link, app_name)
    await take(mine, 5, Receive("t"))
    await mine.release(5)
    assert await take(mine, 6, Receive("t")) == message("first")
    assert await take(mine, 7, Receive("t")) == message("second")


async def test_only_the_owner_takes(link: Link, app_name: str) -> None:
    """Another execution takes nothing, gives nothing back, and learns that it lost the run."""
    await take(inbox(link, app_name), 5, Receive("t"))
    other = inbox(link, app_name, "another")
    with pytest.raises(LostRunError):
        await take(other, 6, Receive("t"))
    await other.release(5)
    assert await take(inbox(link, app_name), 6, Receive("t")) == message("second")


async def test_two_at_once(link: Link, app_name: str) -> None:
    """Two receives of one topic get a message each."""
    mine = inbox(link, app_name)
    taken = await asyncio.gather(*(take(mine, place, Receive("t")) for place in (5, 6)))
    assert taken == [message("first"), message("second")]


async def test_a_wait_keeps_its_end(link: Link, app_name: str) -> None:
    """Begun again, a receive waits no longer than it would have, and a late message is late."""
    waiting = asyncio.create_task(inbox(link, app_name).take(5, Receive("other", 1.0)))
    async with asyncio.timeout(10):
        while not await link.database.row(
            "SELECT 1 FROM iwf.claim WHERE workflow_id = $1", app_name
        ):
            await asyncio.sleep(0.01)
    begun = time.monotonic()
    waiting.cancel()
    assert await take(inbox(link, app_name), 5, Receive("other", 60.0)) == Outcome(None)
    assert time.monotonic() - begun < 30
    await link.database.execute(
        "INSERT INTO dbos.notifications (destination_uuid, topic, message, serialization) "
        "VALUES ($1, 'other', '1', 'portable_json')",
        app_name,
    )
    assert await take(inbox(link, app_name), 5, Receive("other", 60.0)) == Outcome(None)
    assert await take(inbox(link, app_name), 6, Receive("other")) == Outcome({"message": 1})


async def test_what_was_taken_before_the_end_counts(link: Link, app_name: str) -> None:
    """While the run goes on, each message counts; then those that it took; then none."""
    name = "SELECT message_uuid FROM dbos.notifications WHERE destination_uuid = $1 ORDER BY 1"
    sent = [row["message_uuid"] for row in await link.database.rows(name, app_name)]
    await take(inbox(link, app_name), 5, Receive("t"))

    async def counts() -> list[bool]:
        return [await runs.counts(link.database, app_name, uuid) for uuid in sent]

    assert await counts() == [True, True]
    await link.end(app_name)
    assert await counts() == [True, False]
    await link.database.execute(
        "DELETE FROM dbos.workflow_status WHERE workflow_uuid = $1", app_name
    )
    assert await counts() == [False, False]
