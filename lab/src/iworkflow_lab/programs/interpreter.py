"""The flow that interprets a program.

A program is a tree of nodes, plain JSON: `{"op": ..., ...}`. Every step gets a digest of all that
the run saw before it, so that a result that changed hands, or a completion that moved, shows at
once: in the arguments of the next step, or in the token that the step returns.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Awaitable
from typing import Any

from iworkflow.core import Context, FlowError
from iworkflow_lab.programs.steps import Swapped, bad, effect, parted, token
from iworkflow_lab.programs.tree import Node


class Boom(Exception):
    """What a program raises by itself."""


async def interpret(ctx: Context, program: Node) -> dict[str, Any]:
    """Run the program and return what it saw, in its order."""
    return await Interpreter(ctx).main(program)


class Interpreter:
    """One run of a program."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.trail: list[str] = []
        self.seen = 0
        self.calls: list[str] = []
        self.messages: dict[str, list[Any]] = {}
        self.states: list[tuple[int, bool]] = []
        self.spawned: list[asyncio.Task[Any]] = []
        self.kept: list[asyncio.Task[Any]] = []

    async def main(self, program: Node) -> dict[str, Any]:
        """Run the program, then await what it spawned.

        The last step pins every choice before it: only the tail of a run is free to change.
        """
        await self.tolerate(self.run(program))
        for task in self.spawned:
            await self.tolerate(task)
        seen: dict[str, Any] = {
            "trail": self.trail,
            "messages": self.messages,
            "states": self.states,
        }
        seen["calls"] = self.calls
        pinned: dict[str, Any] = json.loads(json.dumps(seen))
        await self.op_step({"site": 0})
        return pinned

    def note(self, what: str) -> None:
        """Add to what the run saw."""
        self.trail.append(what)
        self.seen = zlib.crc32(what.encode(), self.seen)

    async def tolerate(self, awaitable: Awaitable[Any]) -> None:
        """Await, and note what it raises, except a program that went wrong."""
        try:
            await awaitable
        except Swapped:
            raise
        except (Boom, FlowError, TimeoutError, ExceptionGroup) as error:
            self.note(type(error).__name__)

    async def run(self, node: Node) -> None:
        """Run one node."""
        await getattr(self, f"op_{node['op']}")(node)

    def task(self, node: Node) -> asyncio.Task[None]:
        """Run a node in a task of its own."""
        return asyncio.create_task(self.run(node))

    async def op_step(self, node: Node) -> None:
        seen = self.seen
        got, call = parted(await self.ctx.step(effect, node["site"], seen))
        if got != token(node["site"], seen):
            raise Swapped(f"{token(node['site'], seen)} got {got}")
        self.calls.append(call)
        self.note(got)

    async def op_bad(self, node: Node) -> None:
        seen = self.seen
        try:
            await self.ctx.step(bad, node["site"], seen)
        except FlowError as error:
            if str(error) != token(node["site"], seen):
                raise Swapped(f"{token(node['site'], seen)} got {error}") from error
            self.note(f"bad {error}")
            raise

    async def op_boom(self, node: Node) -> None:
        self.note("boom")
        raise Boom

    async def op_seq(self, node: Node) -> None:
        for child in node["body"]:
            await self.run(child)

    async def op_gather(self, node: Node) -> None:
        results: list[Any] = await asyncio.gather(
            *(self.run(child) for child in node["body"]), return_exceptions=node["keep"]
        )
        self.note("gather " + ",".join(type(r).__name__ for r in results))

    async def op_wait(self, node: Node) -> None:
        tasks = [self.task(child) for child in node["body"]]
        mode = asyncio.FIRST_COMPLETED if node["first"] else asyncio.ALL_COMPLETED
        done, pending = await asyncio.wait(tasks, return_when=mode)
        for task in done:
            self.note(f"done {tasks.index(task)}")
            await self.op_step(node)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            await self.tolerate(task)

    async def op_group(self, node: Node) -> None:
        async with asyncio.TaskGroup() as group:
            for child in node["body"]:
                group.create_task(self.run(child))
            if node["abort"]:
                await self.op_step(node)
                raise Boom

    async def op_timeout(self, node: Node) -> None:
        try:
            async with asyncio.timeout(node["after"]):
                await self.run(node["body"])
        except TimeoutError:
            self.note("timeout")

    async def op_queue(self, node: Node) -> None:
        queue: asyncio.Queue[Node | None] = asyncio.Queue(maxsize=1)

        async def work() -> None:
            while (item := await queue.get()) is not None:
                await self.tolerate(self.run(item))

        workers = [asyncio.create_task(work()) for _ in range(2)]
        try:
            for item in [*node["body"], None, None]:
                await queue.put(item)
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()

    async def op_event(self, node: Node) -> None:
        event = asyncio.Event()

        async def waiter(child: Node) -> None:
            await event.wait()
            await self.run(child)

        waiters = [asyncio.create_task(waiter(child)) for child in node["body"]]
        try:
            await self.tolerate(self.op_step(node))
        finally:
            event.set()
        for task in waiters:
            await self.tolerate(task)

    async def op_cancel(self, node: Node) -> None:
        task = self.task(node["body"])
        await self.op_step(node)
        self.note(f"cancel {task.cancel()}")
        await asyncio.gather(task, return_exceptions=True)

    async def op_spawn(self, node: Node) -> None:
        async def nest() -> None:
            self.spawned.append(self.task(node["body"]))

        await asyncio.create_task(nest())

    async def op_forget(self, node: Node) -> None:
        self.kept.append(asyncio.create_task(self.tolerate(self.run(node["body"]))))

    async def op_state(self, node: Node) -> None:
        mine = len(self.states)
        self.states.append((node["site"], False))
        await self.ctx.set_state("k", node["site"])
        self.states[mine] = (node["site"], True)
        self.note(f"state {node['site']}")

    async def op_sleep(self, node: Node) -> None:
        await asyncio.sleep(node["after"])
        self.note("slept")

    async def receive(self, topic: str, timeout: float | None) -> None:
        got = await self.ctx.recv(topic, timeout=timeout)
        self.note(f"{topic} {got}")
        if got is not None:
            self.messages.setdefault(topic, []).append(got)

    async def op_recv(self, node: Node) -> None:
        await self.receive(node["topic"], node["after"])

    async def op_race(self, node: Node) -> None:
        recv = asyncio.create_task(self.receive(node["topic"], None))
        body = self.task(node["body"])
        await asyncio.wait({recv, body}, return_when=asyncio.FIRST_COMPLETED)
        recv.cancel()
        body.cancel()
        await asyncio.gather(recv, body, return_exceptions=True)

    async def op_finally(self, node: Node) -> None:
        try:
            await self.run(node["body"])
        finally:
            await self.op_step(node)

    async def op_generator(self, node: Node) -> None:
        async def ticks() -> AsyncIterator[int]:
            try:
                for n in range(3):
                    await self.run(node["body"])
                    yield n
            finally:
                await self.op_step(node)

        async for n in ticks():
            if n == node["stop"]:
                break

    async def op_semaphore(self, node: Node) -> None:
        semaphore = asyncio.Semaphore(2)

        async def inside(child: Node) -> None:
            async with semaphore:
                await self.run(child)

        await asyncio.gather(*(inside(child) for child in node["body"]), return_exceptions=True)

    async def op_shield(self, node: Node) -> None:
        inner = self.task(node["body"])
        self.spawned.append(inner)
        await asyncio.shield(inner)
