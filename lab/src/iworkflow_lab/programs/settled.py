"""The flow that interprets a program whose outcome does not depend on any order.

Branches share nothing: each keeps its own digest of what it saw, hands it to its steps, and gives
its results to the one that joins it, which puts them in the order of the program. What is raced
has one possible winner, what is cancelled can have done nothing, and every task is awaited before
the run ends. So on any engine, whatever completes first and whoever is killed meanwhile, the run
comes to one outcome, one state, and one set of effects.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from iworkflow.core import Context, FlowError, as_completed
from iworkflow_lab.programs.interpreter import Boom
from iworkflow_lab.programs.steps import (
    Swapped,
    bad,
    effect,
    flaky,
    hang,
    parted,
    plain,
    token,
)
from iworkflow_lab.programs.tree import Node

PATCH = "programs"
FAILURES = (Boom, FlowError, ExceptionGroup)
FOREVER = 3600.0

Tree = Any
"""What a node came to: plain JSON."""


async def settle(ctx: Context, program: Node, seen: int = 0) -> dict[str, Any]:
    """Run the program and return the tree of its results."""
    return await Program(ctx).main(program, seen)


class Program:
    """What the branches of one run share, and none of them reads."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.calls: list[str] = []
        self.spawned: dict[str, Tree] = {}
        self.tasks: list[asyncio.Task[Any]] = []

    async def main(self, program: Node, seen: int) -> dict[str, Any]:
        """Run the program, then await all that it began."""
        main = self.task(Branch(self, "r", seen).run(program))
        waited = 0
        while waited < len(self.tasks):
            pending, waited = self.tasks[waited:], len(self.tasks)
            await asyncio.gather(*pending, return_exceptions=True)
        self._check()
        return {"tree": main.result(), "spawned": self.spawned, "calls": self.calls}

    def task(self, work: Coroutine[Any, Any, Tree]) -> asyncio.Task[Tree]:
        """Run work in a task that is awaited before the run ends."""
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task

    def _check(self) -> None:
        for task in self.tasks:
            if not task.cancelled() and isinstance(error := task.exception(), Swapped):
                raise error


class Branch:
    """One branch: what it saw, in its own order."""

    def __init__(self, program: Program, name: str, seen: int) -> None:
        self.program = program
        self.ctx = program.ctx
        self.name = name
        self.seen = seen
        self.forks = 0

    def fork(self) -> Branch:
        """Begin a branch with a name and a digest of its own."""
        self.forks += 1
        name = f"{self.name}.{self.forks}"
        return Branch(self.program, name, zlib.crc32(name.encode(), self.seen))

    def note(self, what: Tree) -> Tree:
        """Add to what the branch saw."""
        self.seen = zlib.crc32(json.dumps(what, sort_keys=True).encode(), self.seen)
        return what

    def task(self, node: Node) -> asyncio.Task[Tree]:
        """Run a node in a branch of its own, as a task."""
        return self.program.task(self.fork().run(node))

    async def run(self, node: Node) -> Tree:
        """Run one node."""
        return await getattr(self, f"op_{node['op']}")(node)

    async def capture(self, awaitable: Awaitable[Tree]) -> Tree:
        """Await, and return what it raised as data."""
        try:
            return {"ok": await awaitable}
        except FAILURES as error:
            return {"error": described(error)}

    # Steps.

    async def call(self, step: Callable[..., Any], node: Node, **options: Any) -> str:
        """Run a step at the node, and see that the result is its own."""
        expected = token(node["site"], self.seen)
        try:
            got = await self.ctx.step(step, node["site"], self.seen, **options)
        except FlowError as error:
            if error.message != expected:
                raise Swapped(f"{expected} got {error!r}") from error
            self.program.calls.append(error.details_as(dict[str, str])["call"])
            self.note(expected)
            raise
        mark, call = parted(got)
        if mark != expected:
            raise Swapped(f"{expected} got {mark}")
        self.program.calls.append(call)
        self.note(mark)
        return mark

    async def op_step(self, node: Node) -> Tree:
        return await self.call(effect, node)

    async def op_thread(self, node: Node) -> Tree:
        return await self.call(plain, node)

    async def op_flaky(self, node: Node) -> Tree:
        return await self.call(flaky, node, attempts=None, retry_interval=0.05)

    async def op_bad(self, node: Node) -> Tree:
        return await self.call(bad, node)

    async def op_boom(self, node: Node) -> Tree:
        raise Boom(f"boom {node['site']}")

    async def op_hang(self, node: Node) -> Tree:
        try:
            await self.ctx.step(hang, node["site"], self.seen)
        finally:
            if node["cleanup"]:
                await self.op_step(node)

    # State, time, messages, versions, children.

    async def op_state(self, node: Node) -> Tree:
        await self.ctx.set_state(self.name, node["site"])
        return self.note(["state", node["site"]])

    async def op_sleep(self, node: Node) -> Tree:
        await asyncio.sleep(node["after"])
        return self.note("slept")

    async def op_patched(self, _node: Node) -> Tree:
        return self.note(await self.ctx.patched(PATCH))

    async def op_recv(self, node: Node) -> Tree:
        topic = topic_of(node)
        return self.note([await self.ctx.recv(topic) for _ in range(node["count"])])

    async def op_overtaken(self, node: Node) -> Tree:
        recv = self.program.task(self._receive(node))
        step = self.program.task(self.fork().op_step(node))
        async with joined([recv, step]):
            await asyncio.wait({recv, step}, return_when=asyncio.FIRST_COMPLETED)
            got = recv.result() if recv.done() else None
            recv.cancel()
            await asyncio.gather(recv, return_exceptions=True)
            if got is None and not recv.cancelled():
                got = recv.result()
            mark = await step
        return self.note([mark, got if got is not None else await self._receive(node)])

    async def _receive(self, node: Node) -> Tree:
        return await self.ctx.recv(topic_of(node))

    async def op_silent(self, node: Node) -> Tree:
        return self.note(await self.ctx.recv("silent", timeout=node["after"], default="silence"))

    async def op_mail(self, node: Node) -> Tree:
        topic = f"m{node['site']}.{self.seen}"
        for number in range(node["count"]):
            await self.ctx.signal(self.ctx.workflow_id, topic, number)
        return self.note([await self.ctx.recv(topic) for _ in range(node["count"])])

    async def op_child(self, node: Node) -> Tree:
        id = f"{self.ctx.workflow_id}.{node['site']}.{self.seen}"
        if node["start"]:
            handle = await self.ctx.start_child(settle, node["body"], self.seen, id=id)
            await self.op_step(node)
            got = await handle.result()
        else:
            got = await self.ctx.child(settle, node["body"], self.seen, id=id)
        self.program.calls += got.pop("calls")
        return self.note(got)

    # What asyncio has.

    async def op_seq(self, node: Node) -> Tree:
        return [await self.run(child) for child in node["body"]]

    async def op_try(self, node: Node) -> Tree:
        return self.note(await self.capture(self.run(node["body"])))

    async def op_gather(self, node: Node) -> Tree:
        tasks = [self.task(child) for child in node["body"]]
        async with joined(tasks):
            if node["keep"]:
                return self.note(await asyncio.gather(*map(self.capture, tasks)))
            try:
                return self.note(await asyncio.gather(*tasks))
            except FAILURES:
                await asyncio.wait(tasks)
                raise next(filter(None, (task.exception() for task in tasks))) from None

    async def op_group(self, node: Node) -> Tree:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self.capture(self.fork().run(child))) for child in node["body"]
            ]
        return self.note([task.result() for task in tasks])

    async def op_completed(self, node: Node) -> Tree:
        async def numbered(number: int, child: Node) -> tuple[int, Tree]:
            return number, await self.capture(branches[number].run(child))

        branches = [self.fork() for _ in node["body"]]
        tasks = [self.program.task(numbered(n, child)) for n, child in enumerate(node["body"])]
        async with joined(tasks):
            found = [done.result() async for done in as_completed(tasks)]
        return self.note([tree for _, tree in sorted(found, key=lambda pair: pair[0])])

    async def op_pick(self, node: Node) -> Tree:
        step = self.program.task(self.fork().op_step(node))
        losers = [self.task(child) for child in node["body"]]
        async with joined([step, *losers]):
            await asyncio.wait({step, *losers}, return_when=asyncio.FIRST_COMPLETED)
            mark = step.result()
        return self.note([mark, *[task.cancelled() for task in losers]])

    async def op_abort(self, node: Node) -> Tree:
        async with asyncio.TaskGroup() as group:
            for child in node["body"]:
                group.create_task(self.fork().run(child))
            await self.op_step(node)
            raise Boom(f"abort {node['site']}")

    async def op_queue(self, node: Node) -> Tree:
        queue: asyncio.Queue[int | None] = asyncio.Queue(maxsize=1)
        branches = [self.fork() for _ in node["body"]]
        trees: list[Tree] = [None] * len(branches)

        async def work() -> None:
            while (n := await queue.get()) is not None:
                trees[n] = await self.capture(branches[n].run(node["body"][n]))

        workers = [self.program.task(work()) for _ in range(2)]
        async with joined(workers):
            for item in [*range(len(trees)), None, None]:
                await queue.put(item)
            await asyncio.gather(*workers)
        return self.note(trees)

    async def op_event(self, node: Node) -> Tree:
        event = asyncio.Event()
        first = self.program.task(self.fork().op_step(node))

        async def after(child: Node, branch: Branch) -> Tree:
            await event.wait()
            return await self.capture(branch.run(child))

        waiters = [self.program.task(after(child, self.fork())) for child in node["body"]]
        async with joined([first, *waiters]):
            mark = await first
            event.set()
            return self.note([mark, *await asyncio.gather(*waiters)])

    async def op_semaphore(self, node: Node) -> Tree:
        semaphore = asyncio.Semaphore(2)

        async def inside(child: Node, branch: Branch) -> Tree:
            async with semaphore:
                return await self.capture(branch.run(child))

        tasks = [self.program.task(inside(child, self.fork())) for child in node["body"]]
        async with joined(tasks):
            return self.note(await asyncio.gather(*tasks))

    async def op_timeout(self, node: Node) -> Tree:
        try:
            async with asyncio.timeout(node["after"]):
                return await self.run(node["body"])
        except TimeoutError:
            return self.note("timeout")

    async def op_spawn(self, node: Node) -> Tree:
        branch = self.fork()

        async def spawned() -> None:
            tree = await self.capture(branch.run(node["body"]))
            self.program.spawned[branch.name] = tree

        self.program.task(spawned())
        return self.note(branch.name)

    async def op_shield(self, node: Node) -> Tree:
        return self.note(await asyncio.shield(self.task(node["body"])))

    async def op_finally(self, node: Node) -> Tree:
        try:
            return await self.run(node["body"])
        finally:
            await self.op_step(node)

    async def op_generator(self, node: Node) -> Tree:
        async def ticks() -> AsyncGenerator[Tree]:
            try:
                for _ in range(3):
                    yield await self.run(node["body"])
            finally:
                await self.op_step(node)

        trees: list[Tree] = []
        async with aclosing(ticks()) as running:
            async for tree in running:
                trees.append(tree)
                if len(trees) == node["stop"]:
                    break
        return trees


@asynccontextmanager
async def joined(tasks: Iterable[asyncio.Task[Any]]) -> AsyncGenerator[None]:
    """Cancel what still runs at the end, and await it."""
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def topic_of(node: Node) -> str:
    """Name the topic that this node alone reads."""
    return f"t{node['site']}"


def described(error: BaseException) -> Tree:
    """Return an error as data that is the same on every engine."""
    if isinstance(error, FlowError):
        return [str(error.reason), error.type, error.message, error.exhausted]
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return ["group", sorted(map(described, group.exceptions))]
    return [type(error).__name__, str(error)]
