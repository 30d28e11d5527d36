"""Messages, states: races lost, readers side by side, a worker killed."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

from iworkflow.core import Target
from iworkflow_lab.barrier import kill
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.waits import ended, held, shows

APP = "iworkflow_lab.apps.messages:app"


async def test_T08_a_lost_recv_consumes_nothing(arena: Arena) -> None:
    """A `recv` that lost a race leaves the message to the next one, also after a KILL."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(Target("messages", "recv_loses"), id="t08")
    await held(arena, "t08", "race")
    await ended(arena, "t08", "race")
    await shows(handle, "lost", True)
    await held(arena, "t08", "later")
    await handle.signal("mail", "hello")
    await kill(arena, worker, "t08")
    await arena.worker(APP)
    await held(arena, "t08", "later")
    arena.let_go("t08.later")
    assert await handle.result(timeout=40) == ["hello", None]
    assert arena.log.ended("t08") == {("work", "race"): 1, ("work", "later"): 1}


async def test_M15_two_recvs_share_a_topic(arena: Arena) -> None:
    """Two waiting `recv`s of one topic get one message each, also with a KILL between them."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(Target("messages", "two_readers"), id="m15")
    await handle.signal("mail", "a")
    await shows(handle, "taken", ["a"])
    await kill(arena, worker, "m15")
    await arena.worker(APP)
    await handle.signal("mail", "b")
    await held(arena, "m15", "after")
    arena.let_go("m15.after")
    assert await handle.result(timeout=20) == ["a", "b", None]


async def test_Q06_the_last_of_two_sets_stays(arena: Arena) -> None:
    """Of two values of a key, a query gives the last: before a KILL, after it, at the end."""
    worker = await arena.worker(APP)
    handle = await arena.client.start(Target("messages", "two_sets"), id="q06")
    await held(arena, "q06", "after")
    assert await handle.query("value") == "last"
    await kill(arena, worker, "q06")
    await arena.worker(APP)
    await held(arena, "q06", "after")
    assert await handle.query("value") == "last"
    arena.let_go("q06.after")
    assert await handle.result(timeout=20) == "after"
    assert await handle.query("value") == "last"
