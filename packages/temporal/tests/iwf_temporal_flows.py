"""Flows for the tests, in a module of their own, as Temporal's sandbox wants them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import iwf_temporal_steps as steps

from iworkflow.core import Context, Failure, FlowError, Target, wait


@dataclass
class Order:
    """A value whose class is defined next to the flows."""

    name: str
    count: int = 1


async def child(ctx: Context, number: int) -> int:
    return await ctx.step(steps.double, number)


async def much(ctx: Context, number: int) -> dict[str, Any]:
    doubled = await ctx.step(steps.double, number)
    added = await ctx.step(steps.plus_one, doubled)
    many = await asyncio.gather(*(ctx.step(steps.double, i) for i in range(5)))
    await ctx.set_state("doubled", {"value": doubled})
    begun = await ctx.now()
    await ctx.sleep(0.05)
    slept = (await ctx.now() - begun).total_seconds() >= 0.05
    handle = await ctx.start_child(child, 7, id=f"{ctx.workflow_id}-child")
    inner = await handle.result()
    again = await ctx.child(child, 7, id=f"{ctx.workflow_id}-child")
    await ctx.signal(ctx.workflow_id, "own", ["to", "myself"])
    own = await ctx.recv("own", timeout=20)
    none = await ctx.recv("own", timeout=0.05)
    return {
        "added": added,
        "many": many,
        "slept": slept,
        "inner": [inner, again],
        "own": own,
        "none": none,
        "paced": await ctx.step(steps.double, 4, pool="paced", priority=1),
        "uuid": str(ctx.uuid4()) != str(ctx.uuid4()),
    }


async def typed(ctx: Context, order: Order) -> Order:
    assert isinstance(order, Order)
    return Order(order.name.upper(), order.count + 1)


async def fails(ctx: Context) -> None:
    raise Failure("no luck", type="Luck", details={"odds": 0.5})


async def crashes(ctx: Context) -> None:
    raise KeyError("nowhere")


async def catches(ctx: Context) -> list[Any]:
    seen: list[Any] = []
    calls = (
        lambda: ctx.step(steps.final),
        lambda: ctx.step(steps.always, attempts=2, retry_interval=0.01),
        lambda: ctx.step(steps.always, retry_interval=30, total_timeout=10),
        lambda: ctx.step(steps.hangs, attempts=1, timeout=0.2),
        lambda: ctx.child(fails, id=f"{ctx.workflow_id}-fails"),
        lambda: ctx.child(waits, id=f"{ctx.workflow_id}-late", timeout=0.3),
        lambda: ctx.child(child, 1, id=f"{ctx.workflow_id}-fails", on_existing="attach"),
        lambda: ctx.signal("nobody-there", "t", 1),
    )
    for call in calls:
        try:
            await call()
        except FlowError as error:
            seen.append([str(error.reason), error.type, error.details, error.exhausted])
    return seen


async def collects(ctx: Context, topic: str, count: int) -> list[Any]:
    return [await ctx.recv(topic, timeout=20) for _ in range(count)]


async def waits(ctx: Context) -> str | None:
    return await ctx.recv("go", result_type=str)


async def stubborn(ctx: Context) -> str:
    while True:
        try:
            await ctx.sleep(0.05)
        except (Exception, asyncio.CancelledError):
            steps.seen.append("caught")


async def runs_long(ctx: Context) -> str:
    await ctx.set_state("at", "begin")
    return await ctx.step(steps.long)


async def races(ctx: Context) -> list[Any]:
    """A receive that loses against a step."""
    received = asyncio.ensure_future(ctx.recv("late", result_type=str))
    await asyncio.wait({received}, timeout=0.2)
    received.cancel()
    await ctx.set_state("lost", True)
    await ctx.step(steps.double, 1)
    await ctx.sleep(0.5)
    return [await ctx.recv("late", timeout=10), await ctx.recv("late", timeout=0.1)]


async def both(ctx: Context) -> list[str]:
    return sorted(await asyncio.gather(ctx.recv("pair"), ctx.recv("pair")))


async def abandons(ctx: Context) -> str:
    """A step that takes too long for its branch, in a group whose clean-ups run steps."""
    kept: list[int] = []

    async def branch(number: int) -> None:
        try:
            await ctx.sleep(60)
        finally:
            kept.append(await ctx.step(steps.double, number))

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(branch(number))
            async with asyncio.timeout(3):
                await ctx.step(steps.long)
    except* TimeoutError:
        pass
    done, _ = await wait([ctx.step(steps.double, n) for n in range(3)])
    return f"{sorted(kept)} {[task.result() for task in done]}"


async def attaches(ctx: Context, other: str) -> list[Any]:
    target = Target(other.split("/", maxsplit=1)[0], "waits", str)
    return [await ctx.child(target, id=other.split("/")[1])]


async def patched(ctx: Context) -> list[Any]:
    before = await ctx.patched("new")
    await ctx.recv("go")
    return [before, await ctx.patched("new")]


async def unpatched(ctx: Context) -> list[Any]:
    await ctx.recv("go")
    return []


async def deprecated(ctx: Context) -> list[Any]:
    await ctx.deprecate_patch("new")
    await ctx.recv("go")
    return ["new"]


async def clocked(ctx: Context) -> float:
    return time.time()


async def old_order(ctx: Context) -> list[int]:
    first = await ctx.step(steps.double, 1)
    await ctx.recv("go")
    return [first, await ctx.step(steps.plus_one, 1)]


async def new_order(ctx: Context) -> list[int]:
    first = await ctx.step(steps.plus_one, 1)
    await ctx.recv("go")
    return [first]


async def logs(ctx: Context) -> None:
    ctx.log.warning("said once")
    await ctx.step(steps.double, 1)
    await ctx.step(steps.double, 2)


async def retries(ctx: Context) -> int:
    return await ctx.step(steps.fails_until, 3, attempts=5, retry_interval=0.1)


async def blocks(ctx: Context) -> str:
    return await ctx.step(steps.block, 12.0, timeout=30)


async def one_slow(ctx: Context, seconds: float) -> str:
    await ctx.step(steps.note, "first")
    return await ctx.step(steps.slow, "it", seconds, timeout=120)


async def listens(ctx: Context) -> list[str | None]:
    await ctx.step(steps.note, "waiting")
    first = await ctx.recv("topic", timeout=60, result_type=str)
    await ctx.step(steps.note, f"got-{first}")
    second = await ctx.recv("topic", timeout=60, result_type=str)
    return [first, second]


async def sleeps(ctx: Context, seconds: float) -> float:
    begun = await ctx.now()
    await ctx.step(steps.note, "asleep")
    await ctx.sleep(seconds)
    return (await ctx.now() - begun).total_seconds()


async def retries_slowly(ctx: Context) -> int:
    return await ctx.step(steps.fails_until, 3, attempts=5, retry_interval=10)


async def remembers(ctx: Context) -> int | None:
    return await ctx.step(steps.beats, timeout=120)


async def chains(ctx: Context, count: int) -> list[list[str]]:
    async def chain(name: str) -> list[str]:
        return [await ctx.step(steps.slow, f"{name}{i}", 0.05) for i in range(count)]

    return list(await asyncio.gather(chain("a"), chain("b"), chain("c")))


async def crowds(ctx: Context, pool: str | None, count: int) -> list[int]:
    return list(
        await asyncio.gather(*(ctx.step(steps.counted, n, 0.1, pool=pool) for n in range(count)))
    )


async def backlog(ctx: Context) -> int:
    """One step that holds the pool, then a backlog whose priorities are the wrong way round."""
    head = asyncio.ensure_future(ctx.step(steps.counted, 0, 5, pool="single"))
    await ctx.recv("go")
    rest = [
        ctx.step(steps.counted, priority, 0.01, pool="single", priority=priority)
        for priority in (5, 5, 5, 1, 1, 1)
    ]
    await asyncio.gather(*rest)
    return await head


async def releases(ctx: Context, count: int) -> list[str]:
    """Start children that wait for a message, answer one meanwhile, and let them go on."""

    async def one(number: int) -> str:
        handle = await ctx.start_child(waits, id=f"{ctx.workflow_id}-{number}")
        await freed.wait()
        await ctx.signal(handle.id, "go", "free")
        return str(await handle.result())

    freed = asyncio.Event()
    rest = [asyncio.ensure_future(one(number)) for number in range(count)]
    ping = await ctx.recv("ping", result_type=int)
    await ctx.set_state("pong", await ctx.step(steps.counted, ping, 0.01))
    await ctx.recv("release")
    freed.set()
    return list(await asyncio.gather(*rest))


async def gives_up(ctx: Context, most: int) -> list[int]:
    """Drop twice as many steps as may be under way, then make as many others."""
    hanging = [asyncio.ensure_future(ctx.step(steps.hangs)) for _ in range(2 * most)]
    others = [asyncio.ensure_future(ctx.step(steps.counted, n, 0.01)) for n in range(2 * most)]
    await ctx.sleep(0.3)
    for step in reversed(hanging):
        step.cancel()
    return list(await asyncio.gather(*others))


async def late(ctx: Context, most: int) -> list[str]:
    """A step whose time passes behind others."""
    before = [asyncio.ensure_future(ctx.step(steps.counted, n, 1.0)) for n in range(most)]
    last = asyncio.ensure_future(ctx.step(steps.counted, 99, 0.0, total_timeout=0.4))
    try:
        await last
    except FlowError as error:
        await asyncio.gather(*before)
        return [str(error.reason), error.message]
    return []


async def tells(ctx: Context, other: str, count: int) -> int:
    """Send many messages at once, and as many to nobody."""
    missing = [ctx.signal("nobody", "t", n) for n in range(count)]
    sent = await asyncio.gather(
        *missing, *(ctx.signal(other, "t", n) for n in range(count)), return_exceptions=True
    )
    return sum(isinstance(error, FlowError) for error in sent)


async def fans(ctx: Context, count: int) -> list[int]:
    return list(await asyncio.gather(*(ctx.step(steps.double, n) for n in range(count))))


async def tries(ctx: Context, attempts: int) -> str:
    try:
        await ctx.step(steps.reports_and_fails, attempts=attempts, retry_interval=0.01)
    except FlowError as error:
        return "exhausted" if error.exhausted else str(error)
    return "done"


async def tells_one(ctx: Context, other: str, count: int) -> list[list[str]]:
    told: list[list[str]] = []
    for number in range(count):
        try:
            await ctx.signal(other, "t", number)
        except FlowError as error:
            told.append([str(error.reason), error.message])
    return told


async def breaks_off(ctx: Context, count: int) -> None:
    starts = [ctx.start_child(waits, id=f"{ctx.workflow_id}-{number}") for number in range(count)]
    await asyncio.wait([asyncio.ensure_future(start) for start in starts], timeout=0.3)
    raise ValueError("enough")
