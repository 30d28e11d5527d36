"""What a change breaks, judged from two manifests and proven by old and new code that meets.

Every judgement of a type is proven three times over: the one side's type encodes and the other's
decodes; an old and a new starter and worker meet on the memory engine; and a run in flight is
taken over by a new worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pytest

from iworkflow.contracts import (
    ContractHandle,
    Message,
    State,
    WorkflowContract,
    child_contract,
    contract_handle,
    define_workflow_contract,
    implements,
    start_contract,
)
from iworkflow.contracts.judging import Change, Side, judge, judge_all
from iworkflow.contracts.manifest import manifest_of
from iworkflow.core import AppDefinition, Client, Context, Failure, FlowError, Target
from iworkflow.core.codec import decode, encode
from iworkflow.core.memory import MemoryClient, MemoryRuntime, MemoryStore, VirtualClock

Contract = WorkflowContract[Any, Any]

NEW, OLD, FLIGHT = Side.NEW_STARTER, Side.OLD_STARTER, Side.IN_FLIGHT
ALL = frozenset(Side)


class Input(msgspec.Struct):
    code: str


class Done(msgspec.Struct):
    value: str


def define(**changes: Any) -> Contract:
    """Define the contract that the tables change."""
    parts: dict[str, Any] = {
        "name": "process",
        "task_queue": "worker",
        "workflow_id": "x-{code}",
        "input": Input,
        "outcomes": {"done": Done},
        "signals": {"go": Message("go on", bool)},
        "queries": {"at": Message("where it waits", str)},
    }
    for sort in ("signals", "queries"):
        changes[sort] = {**parts[sort], **changes.get(sort, {})}
        changes[sort] = {name: one for name, one in changes[sort].items() if one is not None}
    return define_workflow_contract(**{**parts, **changes})


FOREIGN = ("DecodeError", "EncodeError", "InvalidTransition")


# The memory engine, with workers that come and go over one store.

Flow = Callable[[Context, Any], Any]


class Rollout:
    """A store that outlives its workers."""

    def __init__(self) -> None:
        PARKED.event = asyncio.Event()
        self.store = MemoryStore(VirtualClock())
        self.client: Client = MemoryClient(self.store)

    @asynccontextmanager
    async def worker(self, contract: Contract, flow: Flow) -> AsyncIterator[None]:
        """Run a worker of the contract."""
        app = AppDefinition(contract.task_queue, flows=[implements(contract)(flow)])
        async with self.running(app):
            yield

    @asynccontextmanager
    async def running(self, app: AppDefinition) -> AsyncIterator[None]:
        async with MemoryRuntime(self.store).running(app, grace=0):
            yield

    async def waits(self, id: str) -> None:
        """Wait until the run says that it waits."""
        async with asyncio.timeout(10):
            while not await self._says_so(id):
                await asyncio.sleep(0)

    async def _says_so(self, id: str) -> bool:
        return id in self.store.runs and await self.client.handle(id).query("at") == "waiting"


async def waiting(ctx: Context) -> None:
    """Say that the run waits, and wait for the word to go on."""
    await ctx.set_state("at", "waiting")
    await ctx.recv("go")


class Parked(logging.Handler):
    """Notices that a run is parked: its history no longer fits the code."""

    def __init__(self) -> None:
        super().__init__()
        self.event = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if " parked at operation " in record.getMessage():
            self.event.set()


PARKED = Parked()


@pytest.fixture(autouse=True)
def _parked() -> Iterator[None]:
    logging.getLogger("iworkflow.flow").addHandler(PARKED)
    yield
    logging.getLogger("iworkflow.flow").removeHandler(PARKED)


async def breaks(step: Any) -> bool:
    """Whether a step ends in the failure of a value that is foreign, or in a parked run."""
    outcome, parked = asyncio.ensure_future(step), asyncio.ensure_future(PARKED.event.wait())
    done, pending = await asyncio.wait(
        [outcome, parked], timeout=5, return_when=asyncio.FIRST_COMPLETED
    )
    for one in pending:
        one.cancel()
    assert done, "the step neither ended nor parked its run"
    return parked in done or is_foreign(outcome.exception())


def is_foreign(error: BaseException | None) -> bool:
    if error is None:
        return False
    if isinstance(error, FlowError | Failure) and error.type in FOREIGN:
        return True
    raise error


# The first table: the type of a member, in an input, an outcome, a signal and a query.


class Missing:
    """No such member."""


class Old(Enum):
    A = "a"


class Wide(Enum):
    A = "a"
    B = "b"


class PartOld(msgspec.Struct):
    inner: int


class PartNew(msgspec.Struct):
    inner: str


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


class Mouse(msgspec.Struct, tag=True):
    grey: bool


class Point(NamedTuple):
    x: int
    y: int


Positive = Annotated[int, msgspec.Meta(ge=0)]
Short = Annotated[str, msgspec.Meta(max_length=3)]


@dataclass(frozen=True)
class Row:
    """A member before and after, with samples of both.

    `forward`: the new side reads all that the old one writes; `backward` the other way.
    """

    label: str
    old: Any
    new: Any
    old_samples: Sequence[Any]
    new_samples: Sequence[Any]
    forward: bool
    backward: bool

    def __str__(self) -> str:
        return self.label


_ABSENT: Any = Missing()

ROWS = [
    Row("same", str, str, ["a"], ["b"], True, True),
    Row("text to integer", str, int, ["a"], [1], False, False),
    Row("integer to text", int, str, [1], ["a"], False, False),
    Row("integer to number", int, float, [1], [1.5], True, False),
    Row("number to integer", float, int, [1.5], [1], False, True),
    Row("boolean to integer", bool, int, [True], [1], False, False),
    Row("integer to decimal", int, Decimal, [1], [Decimal("1.5")], True, False),
    Row("may be null now", str, str | None, ["a"], [None], True, False),
    Row("may be null no longer", str | None, str, [None], ["a"], False, True),
    Row("one more type", int, int | str, [1], ["a"], True, False),
    Row("one type less", int | str, int, ["a"], [1], False, True),
    Row("Literal wider", Literal["a"], Literal["a", "b"], ["a"], ["b"], True, False),
    Row("Literal narrower", Literal["a", "b"], Literal["a"], ["b"], ["a"], False, True),
    Row("Literal to text", Literal["a"], str, ["a"], ["z"], True, False),
    Row("text to Literal", str, Literal["a"], ["z"], ["a"], False, True),
    Row("Literal of another type", Literal[1], Literal[True], [1], [True], False, False),
    Row("enum wider", Old, Wide, [Old.A], [Wide.B], True, False),
    Row("enum narrower", Wide, Old, [Wide.B], [Old.A], False, True),
    Row("enum to Literal", Old, Literal["a"], [Old.A], ["a"], True, True),
    Row("enum to text", Old, str, [Old.A], ["z"], True, False),
    Row("date to text", date, str, [date(2025, 1, 1)], ["z"], True, False),
    Row("text to UUID", str, UUID, ["z"], [UUID(int=1)], False, True),
    Row("text to bytes", str, bytes, ["!"], [b"a"], False, True),
    Row("items", list[int], list[str], [[1]], [["a"]], False, False),
    Row("list to set", list[int], set[int], [[1, 1]], [{1}], True, True),
    Row("list to tuple", list[int], tuple[int, int], [[1]], [(1, 2)], False, True),
    Row("longer tuple", tuple[int, int], tuple[int, int, int], [(1, 2)], [(1, 2, 3)], False, False),
    Row("map values", dict[str, int], dict[str, float], [{"a": 1}], [{"a": 1.5}], True, False),
    Row("class to map", PartOld, dict[str, int], [PartOld(1)], [{}], True, False),
    Row("a member of a member", PartOld, PartNew, [PartOld(1)], [PartNew("a")], False, False),
    Row("classes", list[PartOld], list[PartNew], [[PartOld(1)]], [[PartNew("a")]], False, False),
    Row("anything", int, Any, [1], ["a"], True, False),
    Row("a tagged class more", Cat | Dog, Cat | Dog | Mouse, [Cat(9)], [Mouse(True)], True, False),
    Row("a tagged class less", Cat | Dog | Mouse, Cat | Dog, [Mouse(True)], [Cat(9)], False, True),
    Row("named tuple to tuple", Point, tuple[int, int], [Point(1, 2)], [(1, 2)], True, True),
    Row("bounded", int, Positive, [-1], [1], False, True),
    Row("unbounded", Positive, int, [1], [-1], True, False),
    Row("shorter", str, Short, ["abcd"], ["a"], False, True),
    Row("required member added", Missing, int, [_ABSENT], [1], False, True),
    Row("required member removed", int, Missing, [1], [_ABSENT], True, False),
    Row("optional member added", Missing, NotRequired[int], [_ABSENT], [1, _ABSENT], True, True),
    Row("optional member removed", NotRequired[int], Missing, [1, _ABSENT], [_ABSENT], True, True),
    Row("now optional", int, NotRequired[int], [1], [_ABSENT], True, False),
    Row("now required", NotRequired[int], int, [_ABSENT], [1], False, True),
    Row("optional, other type", NotRequired[int], NotRequired[str], [1], ["a"], False, False),
]  # fmt: skip


def shape(name: str, hint: Any) -> Any:
    """Make a class with a code, a Literal and the member."""
    members: dict[str, Any] = {"code": str, "ok": Literal[True]}
    if hint is not Missing:
        members["x"] = hint
    return TypedDict(name, members)  # type: ignore[operator, misc]


def sample(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"code": "1", "ok": True}
    return data if value is _ABSENT else {**data, "x": value}


class Case:
    """A row in one part of the contract: both contracts, and values of both sides."""

    def __init__(self, part: str, row: Row) -> None:
        self.part = part
        shapes = {"old": shape("Shape", row.old), "new": shape("Shape", row.new)}
        self.types = shapes
        self.old, self.new = self.contract(shapes["old"]), self.contract(shapes["new"])
        self.values = {
            "old": [sample(one) for one in row.old_samples],
            "new": [sample(one) for one in row.new_samples],
        }

    def contract(self, hint: Any) -> Contract:
        if self.part == "input":
            return define(input=hint)
        if self.part == "outcome":
            return define(outcomes={"done": hint})
        messages = {"x": Message("it", hint)}
        return define(**{{"signal": "signals", "query": "queries"}[self.part]: messages})

    def expected(self, row: Row) -> frozenset[Side]:
        """The pairs that break, by what each side reads of the other."""
        sent = self.part in ("input", "signal")
        pairs = {
            NEW: row.backward if sent else row.forward,
            OLD: row.forward if sent else row.backward,
            FLIGHT: row.forward,
        }
        return frozenset(side for side, reads in pairs.items() if not reads)

    def reads(self, reader: str, writer: str) -> bool:
        """Encode with the one side's type, and decode with the other's."""
        for value in self.values[writer]:
            encoded = encode(value, self.types[writer], where="written")
            try:
                decode(encoded, self.types[reader], where="read")
            except Failure:
                return False
        return True

    # The flow, and what a starter does; both by the value that the case is about.

    def flow(self, contract: Contract, value: Any) -> Flow:
        async def run(ctx: Context, data: Any) -> Any:
            if self.part == "query":
                await ctx.set_state("x", value)
            await waiting(ctx)
            if self.part == "signal":
                await ctx.recv("x")
            return value if self.part == "outcome" else Done("done")

        return run

    async def start(self, rollout: Rollout, contract: Contract, value: Any) -> ContractHandle[Any]:
        data = value if self.part == "input" else Input("1")
        handle = await start_contract(rollout.client, contract, data)
        if self.part == "signal":
            await handle.signal(contract.signals["x"], value)
        return handle

    async def finish(self, handle: ContractHandle[Any]) -> bool:
        await handle.handle.signal("go", True)
        if self.part == "query":
            await handle.handle.result()
            return await breaks(handle.query(handle.contract.queries["x"]))
        return await breaks(handle.result())

    async def meets(self, starter: Contract, worker: Contract, value: Any) -> bool:
        """A starter and a worker meet; whether it breaks."""
        rollout = Rollout()
        async with rollout.worker(worker, self.flow(worker, value)):
            return await self.finish(await self.start(rollout, starter, value))

    async def is_taken_over(self, value: Any) -> bool:
        """A run begun under the old contract goes on under the new worker; whether it breaks."""
        rollout = Rollout()
        async with rollout.worker(self.old, self.flow(self.old, value)):
            handle = await self.start(rollout, self.old, value)
            await rollout.waits(handle.id)
        newer = self.values["new"][0] if self.part == "query" else value
        async with rollout.worker(self.new, self.flow(self.new, newer)):
            if self.part == "query":
                return await breaks(
                    contract_handle(rollout.client, self.new, handle.id).query(
                        self.new.queries["x"]
                    )
                )
            return await self.finish(handle)

    async def is_recorded(self, value: Any) -> bool:
        """A parent that got an old outcome is replayed by its new code; whether it breaks."""
        rollout = Rollout()
        parents = [self.parent(self.old), self.parent(self.new)]
        target = Target("parents", "parent")
        worker = rollout.worker(self.old, self.flow(self.old, value))
        async with rollout.running(parents[0]), worker:
            run = await rollout.client.start(target, id="parent")
            await rollout.waits("x-1")
            await rollout.client.handle("x-1").signal("go", True)
            await rollout.waits("parent")
        async with rollout.running(parents[1]):
            await run.signal("go", True)
            return await breaks(run.result())

    def parent(self, contract: Contract) -> AppDefinition:
        async def parent(ctx: Context) -> None:
            await child_contract(ctx, contract, Input("1"))
            await waiting(ctx)

        return AppDefinition("parents", flows=[parent])


@pytest.mark.parametrize("part", ["input", "outcome", "signal", "query"])
@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_a_type_is_judged_as_it_proves(part: str, row: Row) -> None:
    """The judgement, the codec, and starters and workers that meet all say the same."""
    case = Case(part, row)
    judged = broken(case.old, case.new)
    assert (case.reads("new", "old"), case.reads("old", "new")) == (row.forward, row.backward)
    assert judged == case.expected(row)
    sent = part in ("input", "signal")
    olds, news = case.values["old"], case.values["new"]
    in_flight = case.is_recorded if part == "outcome" else case.is_taken_over
    proven = {
        NEW: [await case.meets(case.new, case.old, value) for value in (news if sent else olds)],
        OLD: [await case.meets(case.old, case.new, value) for value in (olds if sent else news)],
        FLIGHT: [await in_flight(value) for value in olds],
    }
    assert {side for side, found in proven.items() if any(found)} == judged


def broken(old: Contract, new: Contract) -> frozenset[Side]:
    """The pairs that a change is said to break."""
    return frozenset(side for one in changes(old, new) for side in one.broken)


def changes(old: Contract, new: Contract) -> list[Change]:
    return judge(manifest_of(old), manifest_of(new))


@dataclass
class Defaulted:
    code: str
    x: int = 0


@dataclass
class Demanding:
    code: str
    x: int


async def test_a_default_may_be_left_out_by_neighbours_in_other_languages() -> None:
    """A Python starter always writes it, and yet an older one of another kind need not."""
    old, new = define(input=Defaulted), define(input=Demanding)
    assert broken(old, new) == {OLD, FLIGHT}
    assert broken(new, old) == {NEW}
    for contract, breaking in ((old, False), (new, True)):
        rollout = Rollout()
        async with rollout.worker(contract, finishing):
            run = await rollout.client.start(Target("worker", "process"), {"code": "1"}, id="1")
            await run.signal("go", True)
            assert await breaks(run.result()) is breaking


async def finishing(ctx: Context, data: Any) -> Any:
    await waiting(ctx)
    return Done("done")


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    code: str


class Lax(msgspec.Struct):
    code: str
    more: int = 0


async def test_a_class_that_refuses_unknown_members() -> None:
    """What it does not know breaks it, and nothing else does."""
    strict, lax = define(input=Strict), define(input=Lax)
    assert broken(lax, strict) == {OLD, FLIGHT}
    assert broken(strict, lax) == {NEW}
    rollout = Rollout()
    async with rollout.worker(strict, finishing):
        assert await breaks((await start_contract(rollout.client, lax, Lax("1"))).result())


# The second table: outcomes, states, messages, template and queue.


class Created(msgspec.Struct):
    ok: Literal[True]
    id: str


class Refused(msgspec.Struct):
    ok: Literal[False]
    reason: str


class Late(msgspec.Struct):
    ok: Literal[False]
    due: str


class Late2(msgspec.Struct):
    due: str
    reason: str | None = None


def outcomes(**types: Any) -> Contract:
    return define(outcomes=types)


OUTCOMES: list[tuple[Contract, Contract, Any, Any, frozenset[Side]]] = [
    (
        outcomes(created=Created),
        outcomes(created=Created, refused=Refused),
        [Created(True, "1")],
        [Created(True, "1"), Refused(False, "x")],
        frozenset({OLD}),
    ),
    (
        outcomes(created=Created, refused=Refused),
        outcomes(created=Created),
        [Created(True, "1"), Refused(False, "x")],
        [Created(True, "1")],
        frozenset({NEW, FLIGHT}),
    ),
    (
        outcomes(created=Created, refused=Refused),
        outcomes(created=Created, declined=Refused),
        [Refused(False, "x")],
        [Refused(False, "x")],
        frozenset(),
    ),
    (
        outcomes(created=Created, refused=Refused),
        outcomes(created=Created, late=Late),
        [Refused(False, "x")],
        [Late(False, "x")],
        ALL,
    ),
]


@pytest.mark.parametrize(("old", "new", "olds", "news", "expected"), OUTCOMES)
async def test_outcomes(
    old: Contract, new: Contract, olds: Any, news: Any, expected: frozenset[Side]
) -> None:
    """One more breaks old starters, one less new ones; a new name for the same is no change."""
    assert broken(old, new) == expected

    async def meets(starter: Contract, worker: Contract, value: Any) -> bool:
        async def flow(ctx: Context, data: Any) -> Any:
            return value

        rollout = Rollout()
        async with rollout.worker(worker, flow):
            handle = await start_contract(rollout.client, starter, Input("1"))
            return await breaks(handle.result())

    def recorded(value: Any) -> bool:
        _, written = old.encode_outcome(value)
        try:
            new.decode_outcome(written)
        except Failure:
            return True
        return False

    proven = {
        NEW: [await meets(new, old, value) for value in olds],
        OLD: [await meets(old, new, value) for value in news],
        FLIGHT: [recorded(value) for value in olds],
    }
    assert {side for side, found in proven.items() if any(found)} == expected


class Boxed(TypedDict):
    left: int
    right: NotRequired[int]


class Bag(TypedDict):
    right: int


def test_an_outcome_that_may_be_taken_for_another() -> None:
    """A value of the old one with an optional member fits the new one too: both are named."""
    old, new = outcomes(boxed=Boxed), outcomes(boxed=Boxed, bag=Bag)
    (one, two) = changes(old, new)
    assert (one.part, one.what, set(one.broken)) == (
        "outcome 'boxed'",
        "no longer stands alone",
        {NEW, FLIGHT},
    )
    assert one.broken[NEW] == "it may be read as 'boxed' or 'bag'"
    assert (two.part, set(two.broken)) == ("outcome 'bag'", {OLD})
    with pytest.raises(Failure, match="fits 'boxed' and 'bag' alike"):
        new.decode_outcome(old.encode_outcome({"left": 1, "right": 2})[1])


def states(*, first: str = "one", **arrows: list[str]) -> Contract:
    ordered = {first: arrows.pop(first), **arrows}
    return define(states={name: State(next=one) for name, one in ordered.items()})


STATES: list[tuple[Contract, Contract, list[str], frozenset[Side]]] = [
    (states(one=["done"]), states(one=["two", "done"], two=["done"]), ["one"], frozenset()),
    (
        states(one=["two"], two=["done"]),
        states(one=["done"]),
        ["one", "two"],
        frozenset({FLIGHT}),
    ),
    (
        states(one=["two", "done"], two=["one", "done"]),
        states(one=["two", "done"], two=["done"]),
        ["one", "two", "one"],
        frozenset({FLIGHT}),
    ),
    (
        states(one=["two"], two=["one", "done"]),
        states(first="two", one=["two"], two=["one", "done"]),
        ["one", "two"],
        frozenset({FLIGHT}),
    ),
    (define(), states(one=["done"]), [], frozenset()),
]


@pytest.mark.parametrize(("old", "new", "steps", "expected"), STATES)
async def test_states(
    old: Contract, new: Contract, steps: list[str], expected: frozenset[Side]
) -> None:
    """A state, an arrow or a start that goes breaks the runs that went that way, and no others."""

    async def flow(ctx: Context, data: Any) -> Any:
        for step in steps:
            await ctx.set_state("state", step)
        await waiting(ctx)
        return Done("done")

    assert broken(old, new) == expected
    rollout = Rollout()
    async with rollout.worker(old, flow):
        handle = await start_contract(rollout.client, old, Input("1"))
        await rollout.waits(handle.id)
    async with rollout.worker(new, flow):
        await handle.signal(old.signals["go"], True)
        assert await breaks(handle.result()) is (FLIGHT in expected)


def test_an_arrow_to_an_outcome_follows_its_new_name() -> None:
    """A renamed outcome is the same class: runs in flight come to it."""
    arrows = {"created": Created, "refused": Refused}
    renamed = {"created": Created, "declined": Refused}
    old = define(outcomes=arrows, states={"one": State(next=["created", "refused"])})
    new = define(outcomes=renamed, states={"one": State(next=["created", "declined"])})
    assert broken(old, new) == frozenset()
    gone = define(
        outcomes=arrows,
        states={"one": State(next=["two", "created"]), "two": State(next=["refused"])},
    )
    assert broken(old, gone) == {FLIGHT}


async def listening(ctx: Context, data: Any) -> Any:
    """Read the signal, if the contract has it."""
    await waiting(ctx)
    try:
        heard = await ctx.recv("more", 1)
    except ValueError:
        heard = None
    return Done("heard" if heard else "nothing")


MORE = {"more": Message("more", str)}


async def test_a_signal_that_is_added_or_removed() -> None:
    """A message that is sent has to be read: the side that sends it breaks."""
    less, more = define(), define(signals=MORE)
    assert broken(less, more) == {NEW}
    assert broken(more, less) == {OLD, FLIGHT}
    for worker, heard in ((less, "nothing"), (more, "heard")):
        rollout = Rollout()
        async with rollout.worker(worker, listening):
            handle = await start_contract(rollout.client, more, Input("1"))
            await handle.signal(more.signals["more"], "x")
            await handle.signal(more.signals["go"], True)
            assert await handle.result() == Done(heard)
    rollout = Rollout()
    async with rollout.worker(more, listening):
        handle = await start_contract(rollout.client, more, Input("1"))
        await handle.signal(more.signals["more"], "x")
        await rollout.waits(handle.id)
    async with rollout.worker(less, listening):
        await handle.signal(more.signals["go"], True)
        assert await handle.result() == Done("nothing")


async def telling(ctx: Context, data: Any) -> Any:
    """Answer the query, if the contract has it."""
    try:
        await ctx.set_state("more", "told")
    except ValueError:
        pass
    return Done("done")


async def test_a_query_that_is_added_or_removed() -> None:
    """None is an answer to a new one; an old one that falls silent breaks those who ask."""
    less, more = define(), define(queries=MORE)
    assert broken(less, more) == frozenset()
    assert broken(more, less) == {OLD}
    for worker, told in ((less, None), (more, "told")):
        rollout = Rollout()
        async with rollout.worker(worker, telling):
            handle = await start_contract(rollout.client, more, Input("1"))
            await handle.result()
            assert await handle.query(more.queries["more"]) == told


async def test_another_template() -> None:
    """A new starter does not find the run in flight, and starts a second one."""
    old, new = define(), define(workflow_id="y-{code}")
    assert broken(old, new) == {FLIGHT}
    rollout = Rollout()
    async with rollout.worker(old, finishing):
        first = await start_contract(rollout.client, old, Input("1"))
        again = await start_contract(rollout.client, old, Input("1"))
        second = await start_contract(rollout.client, new, Input("1"))
        assert (first.created, again.created, second.created) == (True, False, True)


async def test_another_queue() -> None:
    """Nobody takes the runs of either starter from the other worker, or carries old ones on."""
    old, new = define(), define(task_queue="elsewhere")
    assert broken(old, new) == ALL
    for starter, worker in ((old, new), (new, old)):
        rollout = Rollout()
        async with rollout.worker(worker, finishing):
            handle = await start_contract(rollout.client, starter, Input("1"))
            await handle.handle.signal("go", True)
            with pytest.raises(TimeoutError):
                await handle.result(timeout=0.05)
    rollout = Rollout()
    async with rollout.worker(old, finishing):
        handle = await start_contract(rollout.client, old, Input("1"))
        await rollout.waits(handle.id)
    async with rollout.worker(new, finishing):
        await handle.handle.signal("go", True)
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.05)


def test_a_contract_that_is_added_or_removed() -> None:
    """One less leaves its starters and runs alone; one more breaks nobody."""
    one = {"process": manifest_of(define())}
    (added,) = judge_all({}, one)
    assert (added.what, added.breaking) == ("added", False)
    (removed,) = judge_all(one, {})
    assert (removed.what, set(removed.broken)) == ("removed", {OLD, FLIGHT})
    assert judge_all(one, one) == []


class Described(msgspec.Struct):
    """Said by a person."""

    code: Annotated[str, msgspec.Meta(description="the code")]


class Undescribed(msgspec.Struct):
    code: str


def test_what_is_said_to_people_breaks_nobody() -> None:
    """Descriptions are changes still; a class of another name alone is none."""
    old = define(input=Undescribed, description="a", states={"one": State(next=["done"])})
    new = define(
        input=Described,
        description="b",
        states={"one": State(next=["done"], description="first")},
        signals={"go": Message("other words", bool)},
        queries={"at": Message("other words", str)},
    )
    found = changes(old, new)
    assert {(one.part, one.what) for one in found} == {
        (part, "documentation changed")
        for part in (
            "input",
            "input.code",
            "state 'one'",
            "signal 'go'",
            "query 'at'",
            "description",
        )
    }
    assert not any(one.breaking for one in found)
    assert changes(define(input=Input), define(input=Undescribed)) == []


def test_a_change_names_the_member_and_the_reason() -> None:
    """Each change of an input stands alone, with what it breaks."""
    old: Mapping[str, Any] = {"code": str, "part": PartOld, "gone": int}
    new: Mapping[str, Any] = {"code": str, "part": PartNew, "more": NotRequired[int]}
    found = changes(
        define(input=TypedDict("In", dict(old))),  # type: ignore[operator, misc]
        define(input=TypedDict("In", dict(new))),  # type: ignore[operator, misc]
    )
    assert [(one.part, one.what, dict(one.broken)) for one in found] == [
        (
            "input.part.inner",
            "type changed from integer to string",
            {
                NEW: "part.inner: string is written where integer is read",
                OLD: "part.inner: integer is written where string is read",
                FLIGHT: "part.inner: integer is written where string is read",
            },
        ),
        (
            "input.gone",
            "member removed (it was required)",
            {NEW: "gone: is required, and not written"},
        ),
        ("input.more", "member added (optional)", {}),
    ]


class TreeOld(msgspec.Struct):
    leaf: int
    branches: list[TreeOld] = []


class TreeNew(msgspec.Struct):
    leaf: str
    branches: list[TreeNew] = []


def test_types_that_contain_themselves() -> None:
    """They end, and are compared."""
    same, other = (define(queries={"x": Message("x", hint)}) for hint in (TreeOld, TreeNew))
    assert broken(same, same) == frozenset()
    assert broken(same, other) == ALL


class TwiceOld(msgspec.Struct):
    first: PartOld
    second: PartOld


class TwiceNew(msgspec.Struct):
    first: PartNew
    second: PartNew


def test_a_class_that_stands_in_two_places_is_named_in_both() -> None:
    """What was compared once is compared again elsewhere."""
    old, new = (define(queries={"x": Message("x", hint)}) for hint in (TwiceOld, TwiceNew))
    found = changes(old, new)
    assert [one.part for one in found] == ["query 'x'.first.inner", "query 'x'.second.inner"]
    assert all(set(one.broken) == ALL for one in found)


class Chatty(msgspec.Struct, tag="chatty"):
    part: PartOld


class Silent(msgspec.Struct, tag="silent"):
    part: PartOld


class ChattyNew(msgspec.Struct, tag="chatty"):
    part: PartNew


class SilentNew(msgspec.Struct, tag="silent"):
    part: PartNew


def test_what_one_alternative_refuses_is_asked_of_the_next() -> None:
    """A misread in the first class of a union is no pass for the second."""
    old = define(queries={"x": Message("x", Chatty | Silent)})
    new = define(queries={"x": Message("x", ChattyNew | SilentNew)})
    assert broken(old, new) == ALL
    assert broken(old, define(queries={"x": Message("x", Silent | Chatty)})) == frozenset()
