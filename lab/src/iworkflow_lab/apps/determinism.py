"""Flows of the determinism scenarios: every way in which branches of a flow can meet."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from iworkflow.core import AppDefinition, Context, FlowError, non_retryable
from iworkflow_lab.gates import begin, end, free, held, let_go

Trace = list[str]
_Told = Callable[[str], Awaitable[None]]


async def work(key: str) -> str:
    """Wait in the gate of `key`, return the key."""
    return await held(key, result=key)


async def token(previous: str) -> str:
    """Wait in the gate, return what no other execution returns."""
    return await held(previous)


async def quick(key: str) -> str:
    """Return the key at once."""
    return free(key, result=key)


async def refuse(key: str) -> str:
    """Wait in the gate of `key`, fail for good."""
    await held(key)
    raise non_retryable(f"{key} is refused", type="Refused", details={"key": key})


async def deaf(key: str) -> str:
    """Swallow the cancel of this attempt, and return a result all the same."""
    effect = begin(key)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await let_go(effect)
    return end(effect, "too late")


async def indexed(ctx: Context, keys: list[str]) -> list[str]:
    """Gather one held step for each key."""
    return await asyncio.gather(*(ctx.step(work, key) for key in keys))


async def one_fails(ctx: Context) -> dict[str, object]:
    """Gather three steps of which the middle one fails first; then await the others."""
    tasks = [
        asyncio.ensure_future(ctx.step(work, "a")),
        asyncio.ensure_future(ctx.step(refuse, "b")),
        asyncio.ensure_future(ctx.step(work, "c")),
    ]
    caught: FlowError | None = None
    try:
        await asyncio.gather(*tasks)
    except FlowError as error:
        caught = error
    unfinished = [not task.done() for task in tasks]
    await ctx.set_state("caught", caught.type if caught else None)
    kept = await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "type": caught and caught.type,
        "details": caught and caught.details,
        "unfinished": unfinished,
        "kept": [value if isinstance(value, str) else type(value).__name__ for value in kept],
    }


async def fan_out(ctx: Context, width: int) -> list[str]:
    """Gather as many quick steps."""
    return await asyncio.gather(*(ctx.step(quick, str(n)) for n in range(width)))


async def first_completed(ctx: Context, keys: list[str]) -> Trace:
    """Take one step after the other as they complete, and tell the order so far as state."""
    return await _in_turn(ctx, {asyncio.create_task(ctx.step(work, key)) for key in keys})


async def first_or_nobody(ctx: Context, keys: list[str]) -> Trace:
    """Do the same with steps and a wait for a message that nobody sends."""
    steps = {asyncio.create_task(ctx.step(work, key)) for key in keys}
    order = await _in_turn(ctx, {asyncio.create_task(_nobody(ctx)), *steps})
    places = [f"{n} {key}" for n, key in enumerate(order)]
    return [await ctx.step(quick, place) for place in places]


async def _nobody(ctx: Context) -> str:
    """Look for a message that nobody sends."""
    message = await ctx.recv("nothing", 0.01, result_type=str)
    return "nobody" if message is None else message


async def _in_turn(ctx: Context, pending: set[asyncio.Task[str]]) -> Trace:
    order: Trace = []
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        order.extend([task.result() for task in done])
        await ctx.set_state("order", list(order))
    return order


async def too_late(ctx: Context) -> Trace:
    """Give up on a step that does not listen, and go on."""
    trace: Trace = []
    try:
        async with asyncio.timeout(2):
            trace.append(await ctx.step(deaf, "deaf"))
    except TimeoutError:
        trace.append("timeout")
    await ctx.set_state("trace", list(trace))
    trace.append(await ctx.step(work, "after"))
    return trace


async def chains(ctx: Context, width: int, length: int) -> list[Trace]:
    """Run chains of one and the same step side by side; every chain starts alike.

    Now and then a chain looks for a message that nobody sends.
    """

    async def chain(index: int) -> Trace:
        links = ["seed"]
        for _ in range(length):
            links.append(await ctx.step(token, links[-1]))
            if len(links) % 2:
                await _nobody(ctx)
                await ctx.set_state(f"chain-{index}", list(links))
        return links

    return await asyncio.gather(*(chain(index) for index in range(width)))


async def crossing(ctx: Context) -> Trace:
    """Send branches through every meeting point of asyncio, and tell where they went."""
    trace: Trace = []

    async def told(event: str) -> None:
        trace.append(event)
        await ctx.set_state("trace", list(trace))

    await _queue_and_event(ctx, told)
    await _wait_in_rounds(ctx, told)
    await _abort(ctx, told)
    return trace


async def _queue_and_event(ctx: Context, told: _Told) -> None:
    """Three consumers take from a queue what a producer's steps give, once an event is set."""
    queue: asyncio.Queue[str] = asyncio.Queue()
    opened = asyncio.Event()

    async def produce() -> None:
        for n in range(6):
            queue.put_nowait(await ctx.step(work, f"made-{n}"))
            if n == 1:
                opened.set()

    async def consume(name: str) -> None:
        await opened.wait()
        for _ in range(2):
            item = await queue.get()
            await told(f"{name} took {item}")
            await told(f"{name} had {await ctx.step(token, f'{name}/{item}')}")

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        for name in ("x", "y", "z"):
            group.create_task(consume(name))


async def _wait_in_rounds(ctx: Context, told: _Told) -> None:
    """Wait for the first of six, and begin a step for each that the set yields."""

    async def last() -> str:
        return await ctx.step(token, f"round-5 {await _nobody(ctx)}")

    keys = [f"round-{n}" for n in range(5)]
    pending = {asyncio.create_task(ctx.step(token, key)) for key in keys}
    pending.add(asyncio.create_task(last()))
    begun: list[asyncio.Task[str]] = []
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await told(f"won {task.result()}")
            begun.append(asyncio.create_task(ctx.step(token, f"prize/{task.result()}")))
    for prize in asyncio.as_completed(begun):
        await told(f"prize {await prize}")


async def _abort(ctx: Context, told: _Told) -> None:
    """One of four branches fails; the clean-ups of the others run steps."""

    async def branch(name: str) -> None:
        try:
            await told(f"{name} did {await ctx.step(token, f'doing/{name}')}")
            await ctx.sleep(3600)
        finally:
            await told(f"{name} left {await ctx.step(token, f'leaving/{name}')}")

    async def spoil() -> None:
        await ctx.step(work, "spoil")
        raise ValueError("spoilt")

    try:
        async with asyncio.TaskGroup() as group:
            for name in ("p", "q", "r"):
                group.create_task(branch(name))
            group.create_task(spoil())
    except* ValueError as errors:
        await told(f"aborted by {len(errors.exceptions)}")


async def sets(ctx: Context, width: int) -> Trace:
    """Iterate over a set of tasks that are done; abort a group of as many, with clean-ups."""
    tasks = [asyncio.create_task(ctx.step(quick, str(n))) for n in range(width)]
    done, _ = await asyncio.wait(tasks)
    trace = await asyncio.gather(*(ctx.step(quick, f"done {task.result()}") for task in done))
    await ctx.set_state("trace", trace)
    await ctx.step(work, "between")

    async def branch(n: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            trace.append(await ctx.step(quick, f"left {n}"))

    with suppress(TimeoutError):
        async with asyncio.timeout(0.1), asyncio.TaskGroup() as group:
            for n in range(width):
                group.create_task(branch(n))
    await ctx.set_state("trace", trace)
    await ctx.step(work, "after")
    return trace


async def lost_state(ctx: Context, rounds: int) -> str:
    """Lose a state in a race, set another, and so on; then wait.

    States are set one after another: the more are ahead, the further from its record the loser
    is when the first of them is through.
    """
    for n in range(rounds):
        ahead = [asyncio.create_task(ctx.set_state(f"ahead-{n}", m)) for m in range(n)]
        loser = asyncio.create_task(ctx.set_state(f"value-{n}", "OLD"))
        await asyncio.sleep(0)
        if ahead:
            await asyncio.wait(ahead, return_when=asyncio.FIRST_COMPLETED)
        loser.cancel()
        await asyncio.gather(loser, *ahead, return_exceptions=True)
        await ctx.set_state(f"value-{n}", "NEW")
    return await ctx.step(work, "after")


async def leftovers(ctx: Context) -> str:
    """Wait in a step, inside everything that would run further steps when it is left.

    Each clean-up first ends what else it sees on its loop: in a foreign one, others would notice.
    """

    async def one() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            _end_others()
            await ctx.step(quick, "generator left")

    async def aside() -> None:
        try:
            await ctx.sleep(3600)
        finally:
            _end_others(main)
            await ctx.step(quick, "task left")

    main = asyncio.current_task()
    await ctx.step(quick, "first")
    task = asyncio.create_task(aside())
    try:
        async for _ in one():
            await ctx.step(work, "inside")
        return "left"
    finally:
        _end_others()
        await ctx.step(quick, "flow left")
        await asyncio.gather(task, return_exceptions=True)


def _end_others(*spared: asyncio.Task[Any] | None) -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task(), *spared}:
        task.cancel()


async def bystander(ctx: Context, keys: list[str]) -> list[str]:
    """Run steps one after the other, next to others' ends, and collect what they left."""
    done: list[str] = []
    for key in keys:
        done.append(await ctx.step(work, key))
        gc.collect()
    return done


app = AppDefinition(
    app="determinism",
    flows=[
        indexed,
        one_fails,
        fan_out,
        first_completed,
        first_or_nobody,
        too_late,
        chains,
        crossing,
        sets,
        lost_state,
        leftovers,
        bystander,
    ],
    activities=[work, token, quick, refuse, deaf],
)
