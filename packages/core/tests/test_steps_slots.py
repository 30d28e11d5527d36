"""Slots: two limits taken together, by priority and arrival, and never leaked."""

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iworkflow.core.steps import Slot, Slots


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def waiting(slots: Slots, pool: str | None = None, priority: int = 3) -> "asyncio.Task[Slot]":
    return asyncio.ensure_future(slots.acquire(pool, priority))


async def test_the_limit_of_the_process_holds_over_all_pools() -> None:
    """Pools together never take more than the process has."""
    slots = Slots(2, {"a": 2, "b": 2})
    tasks = [waiting(slots, pool) for pool in ("a", "b", None, "a")]
    await settle()
    assert [task.done() for task in tasks] == [True, True, False, False]
    assert slots.held == 2
    tasks[0].result().release()
    await settle()
    assert tasks[2].done()
    tasks[3].cancel()


async def test_who_waits_for_a_full_pool_holds_nothing() -> None:
    """A full pool holds up neither another pool nor a step without one, whatever the priority."""
    slots = Slots(2, {"a": 1, "b": 1})
    held = await slots.acquire("a", 3)
    blocked = [waiting(slots, "a", 1) for _ in range(5)]
    await settle()
    async with asyncio.timeout(1):
        other = await slots.acquire("b", 5)
    assert slots.held == 2
    other.release()
    held.release()
    await settle()
    assert [task.done() for task in blocked] == [True, False, False, False, False]
    for task in blocked:
        task.cancel()


async def test_priority_then_first_come() -> None:
    """Waiting ones go by priority, and those of one priority in order of arrival."""
    slots = Slots(1, {"a": 1})
    held = await slots.acquire(None, 3)
    order: list[str] = []

    async def step(name: str, pool: str | None, priority: int) -> None:
        slot = await slots.acquire(pool, priority)
        order.append(name)
        slot.release()

    calls = [("c", None, 3), ("e", "a", 5), ("d", "a", 3), ("a", "a", 1), ("b", None, 1)]
    tasks = [asyncio.ensure_future(step(*call)) for call in calls]
    await settle()
    held.release()
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c", "d", "e"]


async def test_a_cancelled_waiter_takes_nothing() -> None:
    """A cancel before the turn, and one in the same moment as the turn, leak no slot."""
    slots = Slots(1, {})
    held = await slots.acquire(None, 3)
    first, second, third = (waiting(slots) for _ in range(3))
    await settle()
    first.cancel()
    held.release()  # grants the second
    second.cancel()
    await settle()
    assert first.cancelled()
    assert second.cancelled()
    assert third.done()
    third.result().release()
    assert slots.held == 0


async def test_releasing_twice_gives_back_once() -> None:
    """A second release of one slot does nothing."""
    slots = Slots(2, {})
    one, _ = await slots.acquire(None, 3), await slots.acquire(None, 3)
    one.release()
    one.release()
    assert slots.held == 1


async def test_take_overtakes_nobody() -> None:
    """`take` gives what is free at once, and nothing otherwise."""
    slots = Slots(1, {"a": 1})
    slot = slots.take("a")
    assert slot is not None
    assert slots.take(None) is None
    waiter = waiting(slots)
    await settle()
    slot.release()
    assert slots.take("a") is None
    (await waiter).release()
    assert slots.take("a") is not None


async def test_frozen() -> None:
    """Frozen slots are granted to nobody, waiting or new; held ones are given back."""
    slots = Slots(2, {})
    held = await slots.acquire(None, 3)
    slots.freeze()
    waiter = waiting(slots)
    held.release()
    await settle()
    assert not waiter.done()
    assert slots.take(None) is None
    assert slots.held == 0
    waiter.cancel()


@pytest.mark.parametrize("method", ["acquire", "take"])
async def test_an_unknown_pool(method: str) -> None:
    """An unknown pool raises, naming those there are."""
    slots = Slots(2, {"paced": 1})
    with pytest.raises(LookupError, match=r"no pool 'pacd' \(pools: \['paced'\]\)"):
        await slots.acquire("pacd", 3) if method == "acquire" else slots.take("pacd")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_never_over_a_limit_and_never_leaked(seed: int, limit: int, a: int, b: int) -> None:
    """Random arrivals, cancels and releases: no limit is passed, all who stay get their turn."""
    chance = random.Random(seed)
    pools: dict[str | None, int] = {None: limit, "a": a, "b": b}
    inside: Counter[str | None] = Counter()
    finished: list[int] = []
    slots = Slots(limit, {"a": a, "b": b})

    async def step(number: int) -> None:
        pool = chance.choice([None, "a", "b"])
        slot = slots.take(pool) if chance.random() < 0.1 else None
        slot = slot or await slots.acquire(pool, chance.randint(1, 5))
        inside[pool] += 1
        assert inside[pool] <= pools[pool]
        assert inside.total() <= limit
        try:
            for _ in range(chance.randint(0, 3)):
                await asyncio.sleep(0)
        finally:
            inside[pool] -= 1
            slot.release()
        finished.append(number)

    async def main() -> None:
        tasks = [asyncio.ensure_future(step(number)) for number in range(30)]
        doomed = set(chance.sample(range(30), 12))
        for number in doomed:
            for _ in range(chance.randint(0, 2)):
                await asyncio.sleep(0)
            tasks[number].cancel()
        async with asyncio.timeout(5):
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [
            r for r in results if r is not None and not isinstance(r, asyncio.CancelledError)
        ] == []
        assert set(range(30)) - doomed <= set(finished)
        assert slots.held == 0

    asyncio.run(main())
