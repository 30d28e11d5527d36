"""Steps: how many at once, which first, how long they wait, how large their values may be."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from iworkflow.core import Failure, FlowError, Reason
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.stepping import APP, NARROW, begin, keys, past, peak, target, tell
from iworkflow_lab.suite.waits import held, shows
from iworkflow_lab.until import until

Call = tuple[str, str, dict[str, Any]]


async def crowds(arena: Arena, app: str, runs: dict[str, list[Call]]) -> None:
    """Let runs of many steps each go side by side to their end."""
    handles = [
        await arena.client.start(target("crowd", app), calls, id=run) for run, calls in runs.items()
    ]
    for handle, calls in zip(handles, runs.values(), strict=True):
        assert await handle.result(timeout=60) == [key for _, key, _ in calls]


def most(arena: Arena, runs: dict[str, list[Call]]) -> int:
    """Return how many steps of these runs went on at once; each ran once."""
    for run, calls in runs.items():
        assert arena.log.ended(run) == {(step, key): 1 for step, key, _ in calls}
    return peak([effect for effect in arena.log.read() if effect.run in runs])


@pytest.mark.parametrize("step", ["busy", "sync_busy"])
async def test_S25_a_pool_limits_its_steps(shared: Shared, step: str) -> None:
    """Of ten steps of two runs in a pool of 2, two go on at once: never more, and not fewer."""
    arena = await shared.arena_of(APP)
    runs = {
        f"s25-{step}-{n}": [(step, f"{n}-{m}", {"pool": "two"}) for m in range(5)] for n in range(2)
    }
    await crowds(arena, "steps", runs)
    assert most(arena, runs) == 2


async def test_S25_a_full_pool_holds_up_no_other(shared: Shared) -> None:
    """While a pool is full and has a backlog, steps of other pools and of none go on."""
    arena = await shared.arena_of(APP)
    calls: list[Call] = [("work", key, {"pool": "one"}) for key in ("first", "second")]
    full = await arena.client.start(target("crowd"), calls, id="s25-full")
    await until(lambda: arena.log.in_flight("s25-full"), "one of them runs")
    (running,) = arena.log.in_flight("s25-full")
    for pool in (None, "two"):
        assert await tell(shared, f"s25-beside-{pool}", "tenfold", 1, pool=pool) == 10
    assert arena.log.in_flight("s25-full") == [running]
    arena.let_go("s25-full.all")
    assert await full.result(timeout=20) == ["first", "second"]
    assert peak(arena.log.read("s25-full")) == 1


async def backlog(arena: Arena, run: str, *priorities: int | None) -> list[Any]:
    """Fill the pool of one, and start runs of these priorities, each once the last one waits.

    Each has three steps: of priority 4 and 2, and of none of its own. Then empty the pool.
    """
    hold = await begin(arena, f"{run}-hold", "work", "hold", pool="one")
    await held(arena, f"{run}-hold", "hold")
    handles: list[Any] = []
    for n, priority in enumerate(priorities):
        given = {"4": {"priority": 4}, "2": {"priority": 2}, "own": {}}
        calls: list[Call] = [
            ("busy", f"{n} {name}", {"pool": "one", **option}) for name, option in given.items()
        ]
        start = arena.client.start(target("queues_up"), calls, id=f"{run}-{n}", priority=priority)
        handles.append(await start)
        await shows(handles[-1], "queued", True)
    arena.let_go(f"{run}-hold.hold")
    await asyncio.gather(*(handle.result(timeout=30) for handle in [hold, *handles]))
    return [e for e in arena.log.read() if e.step == "busy" and e.run in {h.id for h in handles}]


async def test_S26_a_backlog_goes_by_priority(shared: Shared) -> None:
    """Steps that wait for a pool of one run by priority: their own, else their run's, else 3.

    Of one priority, the first to come is the first to run.
    """
    arena = await shared.arena_of(APP)
    effects = await backlog(arena, "s26", 5, None, 1)
    order = [effect.key for effect in effects if effect.what == "begin"]
    assert order == [
        *("2 own", "0 2", "1 2", "2 2"),
        *("1 own", "0 4", "1 4", "2 4"),
        "0 own",
    ]
    assert peak(effects) == 1


@pytest.mark.parametrize("step", ["busy", "sync_busy"])
async def test_S33_the_limit_of_the_process(shared: Shared, step: str) -> None:
    """With `max_concurrent_steps=3`, three go on at once, in a pool of ten and in none."""
    arena = await shared.arena_of(NARROW)
    runs = {
        f"s33-{step}-{n}": [(step, f"{n}-{m}", {"pool": pool}) for m in range(5)]
        for n, pool in enumerate([None, "wide"])
    }
    await crowds(arena, "narrow", runs)
    assert most(arena, runs) == 3


async def test_S37_waiting_for_a_pool_is_no_attempt_time(shared: Shared) -> None:
    """A step that waits for its pool for longer than its timeout runs all the same, once."""
    arena = await shared.arena_of(APP)
    await begin(arena, "s37-holder", "work", "hold", pool="one")
    await held(arena, "s37-holder", "hold")
    asked = time.time()
    waiting = await begin(arena, "s37", "busy", "late", pool="one", timeout=0.5, attempts=1)
    await past(asked + 1.2)
    assert keys(shared, "s37") == []
    arena.let_go("s37-holder.hold")
    assert await waiting.result(timeout=20) == "late"
    assert keys(shared, "s37") == ["late"]


async def test_S37_waiting_for_a_pool_counts_in_the_total(shared: Shared) -> None:
    """A step that gets no turn within `total_timeout` fails with `timeout`, and never runs."""
    arena = await shared.arena_of(APP)
    holder = await begin(arena, "s37-full", "work", "hold", pool="one")
    await held(arena, "s37-full", "hold")
    asked = time.time()
    told = await tell(shared, "s37-total", "busy", "never", pool="one", total_timeout=0.6)
    assert (told["reason"], told["type"], told["exhausted"]) == ("timeout", None, False)
    assert 0.6 <= time.time() - asked < 5
    arena.let_go("s37-full.hold")
    assert await holder.result(timeout=20) == "hold"
    assert await tell(shared, "s37-next", "tenfold", 1, pool="one") == 10
    assert keys(shared, "s37-total") == []


LIMIT, FITS, TOO_LARGE = 2000, 1000, 3000


async def test_S34_the_limit_of_a_runtime(arena: Arena) -> None:
    """What a flow or a step gives away may have `max_payload` bytes, and not more.

    Arguments, states, messages and a child's arguments are refused in the flow, before anything
    happens; a result and a heartbeat fail the step for good; details give way to a note.
    """
    await arena.worker(APP, max_payload=LIMIT)

    async def carried(size: int, how: str) -> Any:
        run = f"s34-{how}-{size}"
        return await (await arena.client.start(target("carries"), size, how, id=run)).result(
            timeout=20
        )

    for how in ("argument", "state", "signal", "child", "result", "heartbeat"):
        assert "type" not in await carried(FITS, how), how
        told = await carried(TOO_LARGE, how)
        assert (told["type"], told.get("exhausted", False)) == ("PayloadTooLarge", False), how
    for how in ("argument", "state", "signal", "child"):
        assert not arena.log.begun(f"s34-{how}-{TOO_LARGE}")
    for how in ("result", "heartbeat"):
        assert arena.log.begun(f"s34-{how}-{TOO_LARGE}") == {("large", f"{how} 1"): 1}
    assert (await carried(FITS, "details"))["details"] == "x" * FITS
    details = (await carried(TOO_LARGE, "details"))["details"]
    assert details["max_payload"] == LIMIT
    assert details["too_large"] > TOO_LARGE
    assert arena.log.begun(f"s34-details-{TOO_LARGE}") == {("large", "details 1"): 1}


async def test_S34_the_outcome_of_a_run_is_limited(arena: Arena) -> None:
    """A flow that returns too much has failed; the limit is that of its worker."""
    await arena.worker(APP, max_payload=LIMIT)
    small, large = [
        await arena.client.start(target("carries"), size, "outcome", id=f"s34-{size}")
        for size in (FITS, TOO_LARGE)
    ]
    assert await small.result(timeout=20) == "x" * FITS
    with pytest.raises(FlowError) as caught:
        await large.result(timeout=20)
    assert (caught.value.reason, caught.value.type) == (Reason.FAILED, "PayloadTooLarge")
    assert not arena.log.read()


async def test_S34_the_limit_of_a_client(shared: Shared) -> None:
    """A client refuses what is larger than its own limit before the engine hears of it."""
    arena = await shared.arena_of(APP)
    client = arena.another_client(max_payload=LIMIT)
    small, large = "x" * FITS, "x" * TOO_LARGE
    try:
        for call in (
            client.start(target("tell"), "echo_text", [large], {}, id="s34-none"),
            client.signal_with_start(
                target("everywhere"), large, topic="value", value=1, id="s34-none"
            ),
            client.signal_with_start(
                target("tell"), "echo_text", [small], {}, topic="t", value=large, id="s34-none"
            ),
        ):
            with pytest.raises(Failure) as refused:
                await call
            assert refused.value.type == "PayloadTooLarge"
        with pytest.raises(FlowError) as missing:
            await client.handle("s34-none").describe()
        assert missing.value.reason == Reason.NOT_FOUND
        fits = await client.start(target("tell"), "echo_text", [small], {}, id="s34-fits")
        assert await fits.result(timeout=20) == small
        waits = await client.start(target("tell"), "work", ["hold"], {}, id="s34-waits")
        with pytest.raises(Failure) as unsent:
            await waits.signal("topic", large)
        assert unsent.value.type == "PayloadTooLarge"
        await waits.signal("topic", small)
        arena.let_go("s34-waits.hold")
        assert await waits.result(timeout=20) == "hold"
    finally:
        await client.close()
    assert arena.log.ended("s34-none") == {}
    assert keys(shared, "s34-fits") == ["text"]
    assert await tell(shared, "s34-other", "echo_text", large) == large
