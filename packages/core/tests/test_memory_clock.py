"""Virtual time: when it moves, and in which order timers fire."""

from __future__ import annotations

import asyncio
import time

import pytest

from iworkflow.core.memory.clock import Bell, RealClock, VirtualClock


async def _turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_time_stands_still_while_nobody_waits_for_it() -> None:
    """A timer does not fire as long as nobody waits for time to pass."""
    clock = VirtualClock(0.0)
    fired: list[float] = []
    clock.call_at(5, lambda: fired.append(clock.now()))
    await asyncio.sleep(0.01)
    assert fired == []
    with clock.waiting():
        await clock.sleep(6)
    assert fired == [5]


async def test_timers_fire_in_order_of_time_then_of_making() -> None:
    """Timers fire by their time; those of one moment in the order in which they were made."""
    clock = VirtualClock(0.0)
    fired: list[str] = []
    for name, when in [("late", 9.0), ("a", 3.0), ("b", 3.0), ("early", 1.0)]:
        clock.call_at(when, lambda name=name: fired.append(name))
    with clock.waiting():
        await clock.sleep(10)
    assert fired == ["early", "a", "b", "late"]
    assert clock.now() == 10


async def test_time_waits_for_what_can_still_run() -> None:
    """No timer fires before everything that is ready on the loop has run, however long."""
    clock = VirtualClock(0.0)
    order: list[str] = []

    async def long_chain() -> None:
        await _turns(200)
        order.append("chain")

    chain = asyncio.create_task(long_chain())
    with clock.waiting():
        await clock.sleep(1)
    order.append("timer")
    await chain
    assert order == ["chain", "timer"]


async def test_time_stands_still_while_a_step_runs() -> None:
    """`busy` keeps timers from firing, also while the loop has nothing to do."""
    clock = VirtualClock(0.0)
    real = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, real.set)

    async def step() -> float:
        with clock.busy():
            await real.wait()
            return clock.now()

    running = asyncio.create_task(step())
    with clock.waiting():
        await clock.sleep(100)
    assert await running == 0


async def test_a_step_that_waits_for_the_clock_lets_it_move() -> None:
    """Inside `resting` time moves although a step is under way."""
    clock = VirtualClock(0.0)
    with clock.waiting(), clock.busy(), clock.resting():
        await clock.sleep(7)
    assert clock.now() == 7


async def test_a_cancelled_timer_does_not_move_time() -> None:
    """Time does not jump to a timer that was cancelled."""
    clock = VirtualClock(0.0)
    timer = clock.call_at(50, lambda: None)
    timer.cancel()
    timer.cancel()
    with clock.waiting():
        await clock.sleep(1)
    await _turns()
    assert clock.now() == 1


async def test_no_timer_fires_after_the_limit() -> None:
    """With a limit, later timers stay, and `stuck` is told."""
    clock = VirtualClock(0.0)
    fired: list[str] = []
    clock.call_at(1, lambda: fired.append("one"))
    clock.call_at(3, lambda: fired.append("three"))
    still = Bell()
    clock.stuck = still.ring
    clock.limit = 2
    with clock.waiting():
        await still.wait(clock)
    assert fired == ["one"]


async def test_idle_is_noticed_on_a_loop_that_hides_its_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On such a loop (uvloop) time moves too, after a number of quiet turns."""
    clock = VirtualClock(0.0)
    monkeypatch.setattr("iworkflow.core.memory.clock._READY", "_no_such_queue")
    with clock.waiting():
        await clock.sleep(3)
    assert clock.now() == 3


async def test_a_bell_wakes_all_in_the_order_in_which_they_came() -> None:
    """Who waits longest is woken first."""
    bell, clock, woken = Bell(), VirtualClock(), list[int]()

    async def wait(number: int) -> None:
        await bell.wait(clock)
        woken.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(5)]
    await _turns()
    bell.ring()
    await asyncio.gather(*tasks)
    assert woken == [0, 1, 2, 3, 4]


async def test_the_real_clock_never_fires_early() -> None:
    """A timer of the wall clock fires once the day's time has come, and not before."""
    clock = RealClock()
    late: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    when = time.time() + 0.05
    clock.call_at(when, lambda: late.set_result(time.time() - when))
    assert await late >= 0


async def test_a_cancelled_real_timer_does_not_fire() -> None:
    """A cancelled timer of the wall clock stays silent."""
    clock = RealClock()
    fired: list[int] = []
    clock.call_at(time.time() + 0.01, lambda: fired.append(1)).cancel()
    await clock.sleep(0.03)
    assert fired == []
