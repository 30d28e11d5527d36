"""Messages: order, limits, workers that die between two of them, ends that race them."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest

from iworkflow.core import FlowError, Handle, Target
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import held, shows
from iworkflow_lab.until import until

APP = "iworkflow_lab.apps.mail:app"
LIMIT = 3.0
"""Seconds that a `recv` waits while its worker is killed: long enough to kill it in."""


def target(flow: str) -> Target[Any]:
    """Name a flow of the mail app."""
    return Target("mail", flow)


def noted(*keys: str) -> dict[tuple[str, str], int]:
    """Return the effects of one note for each key."""
    return {("noted", key): 1 for key in keys}


async def reason_of(handle: Handle[Any], topic: str = "mail", value: object = "x") -> str:
    """Send a message and return how that ended."""
    try:
        await asyncio.wait_for(handle.signal(topic, value), 10)
    except FlowError as error:
        return str(error.reason)
    return "sent"


async def test_M01_messages_keep_their_order(shared: Shared) -> None:
    """Messages sent one after another without a pause are received in that order."""
    arena = await shared.arena_of(APP)
    count = 30
    handle = await arena.client.start(target("gated"), "mail", count, id="m01")
    await held(arena, "m01", "before")
    for n in range(count):
        await handle.signal("mail", n)
    arena.let_go("m01.before")
    assert await handle.result(timeout=20) == [*range(count), None]
    assert arena.log.ended("m01") == noted(*map(str, range(count))) | {("held", "before"): 1}


async def test_M01_ids_do_not_change_the_order(shared: Shared) -> None:
    """Nor do ids of messages that sort the other way, also while the reader waits."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("until_stopped"), id="m01-ids")
    await handle.signal("mail", 0)
    await shows(handle, "got", [0])
    for n in range(1, 9):
        await handle.signal("mail", n, message_id=f"m01-{9 - n}" if n % 3 else None)
    await handle.signal("mail", "stop")
    assert await handle.result(timeout=20) == [*range(9)]
    assert arena.log.begun("m01-ids") == {}


async def test_M02_no_message_gives_none(shared: Shared) -> None:
    """Once the time is up, not before, a `recv` gives None or its default."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("nothing"), id="m02")
    result = await handle.result(timeout=20)
    waited = result.pop("waited")
    assert result == {
        "plain": None,
        "default": "the default",
        "zero": None,
        "beside": [None, None, None],
    }
    assert waited >= 0.3
    assert arena.log.begun("m02") == {}


@pytest.mark.parametrize("flow", ["late", "late_beside"])
async def test_M03_a_late_message_is_too_late(shared: Shared, flow: str) -> None:
    """A `recv` that timed out stays so after a late message and a KILL; the next one gets it."""
    arena = await shared.arena_of(APP)
    run = f"m03-a-{flow}"
    handle = await arena.client.start(target(flow), 0.2, id=run)
    if flow == "late_beside":
        await held(arena, run, "beside")
        begun = time.time()
        await until(lambda: time.time() > begun + 1, "the time is up")
        arena.let_go(f"{run}.beside")
    await held(arena, run, "after")
    await handle.signal("mail", "late")
    await shared.kill(APP)
    await shared.arena_of(APP)
    await held(arena, run, "after")
    arena.let_go(f"{run}.after")
    assert await handle.result(timeout=20) == [None, "late", None]
    assert arena.log.ended(run)["held", "after"] == 1


async def killed_in_its_wait(shared: Shared, flow: str, run: str) -> tuple[Handle[Any], float]:
    """Kill a run in its first `recv`; return when that is over at the latest."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target(flow), LIMIT, id=run)
    await until(lambda: arena.log.ended(run)["noted", "begun"], "the flow begins")
    begun = time.time()
    await until(lambda: time.time() > begun + LIMIT / 3, "the wait is begun")
    await shared.kill(APP)
    assert time.time() < begun + LIMIT, "the worker was not dead in time; the test says nothing"
    return handle, begun + LIMIT + 1


async def back_again(shared: Shared, handle: Handle[Any]) -> Any:
    """Start a worker, let the run go to its end, and return its result."""
    arena = await shared.arena_of(APP)
    arena.let_go(f"{handle.id}.all")
    result = await handle.result(timeout=30)
    assert arena.log.ended(handle.id)["held", "after"] == 1
    return result


@pytest.mark.parametrize("flow", ["late", "late_beside"])
async def test_M03_nobody_alive_when_it_comes(shared: Shared, flow: str) -> None:
    """Nor does a `recv` get what came after its time while no worker was alive."""
    handle, over = await killed_in_its_wait(shared, flow, f"m03-b-{flow}")
    await until(lambda: time.time() > over, "the time is up")
    await handle.signal("mail", "late")
    assert await back_again(shared, handle) == [None, "late", None]


@pytest.mark.parametrize("flow", ["late", "late_beside"])
async def test_M03_nobody_alive_when_it_came_in_time(shared: Shared, flow: str) -> None:
    """What came in time while no worker was alive is not late, though the worker is."""
    handle, over = await killed_in_its_wait(shared, flow, f"m03-c-{flow}")
    await handle.signal("mail", "in time")
    await until(lambda: time.time() > over, "the time is up")
    await handle.signal("mail", "late")
    assert await back_again(shared, handle) == ["in time", "late", None]


async def test_M04_other_topics_stay_as_they_are(shared: Shared) -> None:
    """A `recv` takes nothing of another topic, alone or beside others."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.signal_with_start(
        target("apart"), id="m04", topic="full", value="kept"
    )
    assert await handle.result(timeout=20) == [None, None, None, "kept", None]
    assert arena.log.ended("m04") == noted("looked")


async def test_M05_fifty_topics(shared: Shared) -> None:
    """Messages of 50 topics, sent in turn, come in order within each topic."""
    arena = await shared.arena_of(APP)
    names = [f"topic-{n}" for n in range(50)]
    handle = await arena.client.start(target("topics"), names, 3, id="m05")
    for n in range(3):
        for name in names:
            await handle.signal(name, f"{name}/{n}")
    expected = {name: [f"{name}/{n}" for n in range(3)] for name in names}
    assert await handle.result(timeout=30) == expected
    assert arena.log.ended("m05") == noted("read")


async def test_M06_a_message_waits_for_its_reader(shared: Shared) -> None:
    """What was sent before the `recv` is there when it comes."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("gated"), "mail", 1, id="m06")
    await held(arena, "m06", "before")
    await handle.signal("mail", "early")
    arena.let_go("m06.before")
    assert await handle.result(timeout=20) == ["early", None]
    assert arena.log.ended("m06") == noted("early") | {("held", "before"): 1}


@pytest.mark.parametrize("limit", [0, 0.01])
async def test_M06_however_short_the_wait(shared: Shared, limit: float) -> None:
    """Nor is it missed where a `recv` shares the air with others and waits for hardly a moment."""
    arena = await shared.arena_of(APP)
    names = [f"topic-{n}" for n in range(50)]
    run = f"m06-{limit}"
    handle = await arena.client.start(target("looks_beside"), [*names, "empty"], limit, id=run)
    await held(arena, run, "before")
    for name in names:
        await handle.signal(name, name)
    arena.let_go(f"{run}.before")
    await shows(handle, "got", [*names, None])
    arena.let_go(f"{run}.beside")
    assert await handle.result(timeout=20) == [*names, None]
    assert arena.log.ended(run) == {("held", "before"): 1, ("held", "beside"): 1}


async def test_M07_a_message_before_the_flow_is_refused(shared: Shared) -> None:
    """Sent before the flow exists: `not-found`; started later, the flow gets nothing of it."""
    arena = await shared.arena_of(APP)
    handle = arena.client.handle("m07")
    assert await reason_of(handle) == "not-found"
    await arena.client.start(target("collect"), "mail", 1, id="m07")
    await handle.signal("mail", "y")
    assert await handle.result(timeout=20) == ["y", None]
    assert arena.log.ended("m07") == noted("y")


async def test_M08_sent_while_no_worker_lives(shared: Shared) -> None:
    """What was sent while the worker was down is received once after its restart."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("one_then_next"), id="m08")
    waiting = await arena.client.start(target("gated"), "mail", 2, id="m08-gated")
    await held(arena, "m08-gated", "before")
    await shared.kill(APP)
    for one in (handle, waiting):
        await one.signal("mail", "a")
        await one.signal("mail", "b")
    await shared.arena_of(APP)
    arena.let_go("m08-gated.before")
    arena.let_go("m08.between")
    assert await handle.result(timeout=20) == ["a", "b", None]
    assert await waiting.result(timeout=20) == ["a", "b", None]
    assert arena.log.ended("m08") == noted("a") | {("held", "between"): 1}
    assert arena.log.ended("m08-gated") == noted("a", "b") | {("held", "before"): 1}


async def test_M09_a_kill_after_the_message(shared: Shared) -> None:
    """Killed around the taking of a message, ten runs get the same one again, not the next."""
    arena = await shared.arena_of(APP)
    runs = [f"m09-{n}" for n in range(10)]
    handles = [await arena.client.start(target("one_then_next"), id=run) for run in runs]
    sending = [asyncio.ensure_future(send_two(handle)) for handle in handles]
    await until(lambda: any(arena.log.read(run) for run in runs[:5]), "a run has its message")
    await shared.kill(APP)
    await asyncio.gather(*sending)
    await shared.arena_of(APP)
    for handle in handles:
        arena.let_go(f"{handle.id}.all")
        assert await handle.result(timeout=20) == ["a", "b", None]
        assert set(arena.log.begun(handle.id)) == {("noted", "a"), ("held", "between")}


async def send_two(handle: Handle[Any]) -> None:
    """Send a and b."""
    await handle.signal("mail", "a")
    await handle.signal("mail", "b")


async def test_M10_a_missing_flow_takes_no_message(shared: Shared) -> None:
    """Sent to a flow that is missing: `not-found`, for a client and for a flow."""
    arena = await shared.arena_of(APP)
    assert await reason_of(arena.client.handle("m10-missing")) == "not-found"
    arena.let_go("m10.before")
    handle = await arena.client.start(target("sends"), "m10-missing", "x", id="m10")
    assert await handle.result(timeout=20) == "not-found"
    assert arena.log.ended("m10") == noted("not-found") | {("held", "before"): 1}


@pytest.mark.parametrize("how", ["completed", "failed", "terminated", "timed-out"])
async def test_M11_a_finished_flow_takes_no_message(shared: Shared, how: str) -> None:
    """Sent to a flow that ended, however: `not-found`, for a client and for a flow."""
    arena = await shared.arena_of(APP)
    run = f"m11-{how}"
    limit = 1.0 if how == "timed-out" else None
    ended = await arena.client.start(target("ends"), how, id=run, timeout=limit)
    if how == "terminated":
        await until(lambda: arena.log.ended(run), "the flow runs")
        await ended.terminate()
    await asyncio.gather(ended.result(timeout=20), return_exceptions=True)
    assert (await ended.describe()).status == how
    assert await reason_of(ended) == "not-found"
    arena.let_go(f"{run}-sender.before")
    handle = await arena.client.start(target("sends"), run, "x", id=f"{run}-sender")
    assert await handle.result(timeout=20) == "not-found"
    assert arena.log.ended(f"{run}-sender") == noted("not-found") | {("held", "before"): 1}


async def test_M12_a_message_races_the_return(shared: Shared) -> None:
    """Sent while the flow returns: acknowledged or `not-found`, and the flow ends as it would."""
    arena = await shared.arena_of(APP)
    told: Counter[str] = Counter()
    for n in range(10):
        handle = await arena.client.start(target("leaves"), id=f"m12-{n}")
        sends = [asyncio.ensure_future(reason_of(handle, value=i)) for i in range(10)]
        first = await handle.result(timeout=20)
        told.update(await asyncio.gather(*sends))
        assert first in range(10)
        assert await reason_of(handle) == "not-found"
        assert arena.log.ended(f"m12-{n}") == noted("left")
    assert told["sent"] >= 10
    assert set(told) <= {"sent", "not-found"}


async def test_M13_a_sender_is_killed(shared: Shared) -> None:
    """Ten flows that send are killed about the sending: each message is delivered once."""
    arena = await shared.arena_of(APP)
    reader = await arena.client.start(target("until_stopped"), id="m13")
    runs = [f"m13-{n}" for n in range(10)]
    senders = [await arena.client.start(target("sends"), "m13", run, id=run) for run in runs]
    for run in runs:
        await held(arena, run, "before")
    for run in runs:
        arena.let_go(f"{run}.before")

    async def got() -> object:
        return await reader.query("got")

    await until(got, "a message arrives", every=0.002)
    await shared.kill(APP)
    await shared.arena_of(APP)
    assert [await sender.result(timeout=20) for sender in senders] == ["sent"] * 10
    await reader.signal("mail", "stop")
    assert sorted(await reader.result(timeout=20)) == runs
    for run in runs:
        assert set(arena.log.begun(run)) == {("held", "before"), ("noted", "sent")}


async def test_M14_one_id_is_delivered_once(shared: Shared) -> None:
    """Messages of one id are one: from clients and flows, after the reading, and a KILL."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("until_stopped"), id="m14")
    other = await arena.client.start(target("until_stopped"), id="m14-other")
    for _ in range(2):
        await handle.signal("mail", "a", message_id="id-1")
    await shows(handle, "got", ["a"])
    await handle.signal("mail", "again", message_id="id-1")
    await shared.kill(APP)
    await shared.arena_of(APP)
    await handle.signal("mail", "after the kill", message_id="id-1")
    for run in ("m14-one", "m14-two"):
        arena.let_go(f"{run}.before")
        sender = await arena.client.start(target("sends"), "m14", "b", "id-2", id=run)
        assert await sender.result(timeout=20) == "sent"
        assert arena.log.ended(run) == noted("sent") | {("held", "before"): 1}
    await other.signal("mail", "same id, other flow", message_id="id-1")
    for one in (handle, other):
        await one.signal("mail", "stop")
    assert await handle.result(timeout=20) == ["a", "b"]
    assert await other.result(timeout=20) == ["same id, other flow"]


async def test_M16_signal_with_start_starts(shared: Shared) -> None:
    """No run of the id: it is started, and has the message."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.signal_with_start(
        target("collect"), "mail", 1, id="m16", topic="mail", value="first"
    )
    assert handle.created
    assert await handle.result(timeout=20) == ["first", None]
    assert arena.log.ended("m16") == noted("first")


async def test_M16_the_first_look_finds_it(shared: Shared) -> None:
    """A run that only looks for its message and ends has it: they come as one, forty times."""
    arena = await shared.arena_of(APP)
    ids = [f"m16-look-{n}" for n in range(40)]
    start = arena.client.signal_with_start
    handles = await asyncio.gather(
        *(start(target("collect"), "mail", 0, id=id, topic="mail", value=id) for id in ids)
    )
    results = await asyncio.gather(*(handle.result(timeout=60) for handle in handles))
    assert results == [[id] for id in ids]
    assert not any(arena.log.ended(id) for id in ids)


async def test_M17_signal_with_start_finds_the_running_one(shared: Shared) -> None:
    """A run of the id goes on: it gets the message, once for one id, and none is started."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("collect"), "mail", 2, id="m17")
    for value, key in [("a", "m17-a"), ("a", "m17-a"), ("b", None)]:
        found = await arena.client.signal_with_start(
            target("collect"), "mail", 99, id="m17", topic="mail", value=value, message_id=key
        )
        assert not found.created
    assert await handle.result(timeout=20) == ["a", "b", None]
    assert arena.log.ended("m17") == noted("a", "b")
    assert [run.id for run in await arena.client.list(id_prefix="m17")] == ["m17"]


async def test_M17_signal_with_start_leaves_another_flow_alone(shared: Shared) -> None:
    """A run of another flow has the id: `already-started`, and it gets no message."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("collect"), "mail", 1, id="m17-other")
    with pytest.raises(FlowError) as raised:
        await arena.client.signal_with_start(
            target("leaves"), id="m17-other", topic="mail", value="lost"
        )
    assert raised.value.reason == "already-started"
    await handle.signal("mail", "mine")
    assert await handle.result(timeout=20) == ["mine", None]
    assert arena.log.ended("m17-other") == noted("mine")


@pytest.mark.parametrize("how", ["completed", "failed", "terminated", "timed-out"])
async def test_M18_signal_with_start_after_the_end(shared: Shared, how: str) -> None:
    """The run of the id has finished, however: `already-started`, and nothing is run again."""
    arena = await shared.arena_of(APP)
    run = f"m18-{how}"
    limit = 1.0 if how == "timed-out" else None
    handle = await arena.client.start(target("ends"), how, id=run, timeout=limit)
    if how == "terminated":
        await until(lambda: arena.log.ended(run), "the flow runs")
        await handle.terminate()
    await asyncio.gather(handle.result(timeout=20), return_exceptions=True)
    with pytest.raises(FlowError) as raised:
        await arena.client.signal_with_start(
            target("ends"), how, id=run, topic="mail", value="too late"
        )
    assert raised.value.reason == "already-started"
    assert (await handle.describe()).status == how
    assert arena.log.ended(run) == noted(how)


async def test_M19_twenty_at_once(shared: Shared) -> None:
    """Twenty calls at once start one run, which has all twenty messages."""
    arena = await shared.arena_of(APP)

    async def call(n: int) -> bool:
        handle = await arena.client.signal_with_start(
            target("collect"), "mail", 20, id="m19", topic="mail", value=n
        )
        return handle.created

    created = await asyncio.gather(*(call(n) for n in range(20)))
    *got, more = await arena.client.handle("m19").result(timeout=20)
    assert created.count(True) == 1
    assert (sorted(got), more) == (list(range(20)), None)
    assert arena.log.ended("m19") == noted(*map(str, range(20)))
