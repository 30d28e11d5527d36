"""The client and the handle: on the memory engine, and over small engines that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from iworkflow.core.client import Client
from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition, Target
from iworkflow.core.errors import Failure, FlowError, Reason
from iworkflow.core.memory import MemoryClient, MemoryRuntime, MemoryStore, RealClock
from iworkflow.core.port import ClientEngine, Outcome, StartReply, StartRequest, Status


@dataclass
class Lead:
    name: str
    score: int = 1


async def greet(ctx: Context, lead: Lead) -> Lead:
    await ctx.set_state("seen", lead)
    return Lead(lead.name.upper(), lead.score + 1)


async def wait_for(ctx: Context, topic: str = "go") -> str:
    return cast("str", await ctx.recv(topic, result_type=str))


async def refuse(ctx: Context) -> None:
    raise Failure("no thanks", type="Refused", details={"code": 7})


async def facts(ctx: Context) -> int:
    return ctx.priority


async def collect(ctx: Context) -> list[str]:
    found: list[str] = []
    while (message := await ctx.recv("t", result_type=str)) not in {None, "end"}:
        found.append(message)
    return found


APP = AppDefinition(app="office", flows=[greet, wait_for, refuse, facts, collect])
WAIT = APP.target(wait_for)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client next to a worker of the app, on a memory engine of their own."""
    store = MemoryStore(RealClock())
    async with MemoryRuntime(store).running(APP), MemoryClient(store) as one:
        yield one


async def test_start_and_result(client: Client) -> None:
    """A typed target encodes the arguments and decodes the result as the flow's types."""
    handle = await client.start(APP.target(greet), Lead("ada"), id="lead-1")
    assert (handle.id, handle.created, repr(handle)) == ("lead-1", True, "<Handle 'lead-1'>")
    assert await handle.result() == Lead("ADA", 2)


async def test_an_untyped_target(client: Client) -> None:
    """A target by name sends plain values and gives plain JSON, or what is asked for."""
    handle = await client.start(Target("office", "greet"), {"name": "ada"}, id="lead-1")
    assert await handle.result() == {"name": "ADA", "score": 2}
    assert await handle.result(result_type=Lead) == Lead("ADA", 2)
    named = await client.start(Target("office", "greet", Lead), Lead("bob"), id="lead-2")
    assert await named.result() == Lead("BOB", 2)


async def test_a_second_start_attaches(client: Client) -> None:
    """A start with a running id attaches; with a finished one it gives the old outcome."""
    first = await client.start(WAIT, id="x")
    second = await client.start(WAIT, id="x")
    assert (first.created, second.created) == (True, False)
    await first.signal("go", "on")
    assert await second.result() == "on"
    third = await client.start(WAIT, "other", id="x", on_existing="attach")
    assert (third.created, await third.result()) == (False, "on")


async def test_reject(client: Client) -> None:
    """`on_existing="reject"` refuses a taken id, running or finished, and names who has it."""
    handle = await client.start(WAIT, id="x", on_existing="reject")
    with pytest.raises(FlowError) as caught:
        await client.start(WAIT, id="x", on_existing="reject")
    assert caught.value == FlowError(
        "id 'x' is taken by a run of 'office/wait_for' (running)", reason="already-started"
    )
    await handle.signal("go", "on")
    await handle.result()
    with pytest.raises(FlowError, match=r"'office/wait_for' \(completed\)"):
        await client.start(WAIT, id="x", on_existing="reject")


async def test_an_id_of_another_flow(client: Client) -> None:
    """Attaching to a run of another flow is refused, and such a run gets no message."""
    handle = await client.start(WAIT, id="x")
    taken = r"id 'x' is taken by a run of 'office/wait_for' \(running\)"
    with pytest.raises(FlowError, match=taken) as caught:
        await client.start(APP.target(greet), Lead("ada"), id="x")
    assert caught.value.reason is Reason.ALREADY_STARTED
    with pytest.raises(FlowError, match=taken):
        await client.signal_with_start(
            APP.target(greet), Lead("ada"), id="x", topic="go", value="wrong"
        )
    await handle.signal("go", "right")
    assert await handle.result() == "right"


async def test_signal_with_start(client: Client) -> None:
    """It starts with the message, or sends it to the running one; a finished id is taken."""
    first = await client.signal_with_start(WAIT, "b", id="x", topic="a", value="early")
    second = await client.signal_with_start(WAIT, "b", id="x", topic="b", value="late")
    assert (first.created, second.created) == (True, False)
    assert await first.result() == "late"
    with pytest.raises(FlowError, match=r"taken by a run of 'office/wait_for' \(completed\)"):
        await client.signal_with_start(WAIT, "b", id="x", topic="b", value="later")


async def test_options_reach_the_run(client: Client) -> None:
    """Priority and timeout of a start are the run's; the default priority is 3."""
    urgent = await client.start(APP.target(facts), id="a", priority=1)
    usual = await client.start(APP.target(facts), id="b")
    assert (await urgent.result(), await usual.result()) == (1, 3)
    signalled = await client.signal_with_start(
        APP.target(facts), id="c", topic="t", value=0, priority=5
    )
    assert await signalled.result() == 5
    short = await client.start(WAIT, id="d", timeout=timedelta(milliseconds=20))
    with pytest.raises(FlowError) as caught:
        await short.result()
    assert caught.value.reason is Reason.TIMEOUT
    assert (await short.describe()).status is Status.TIMED_OUT


async def test_a_failed_flow(client: Client) -> None:
    """A failed flow is raised with reason, type and details; the handle can be asked again."""
    handle = await client.start(APP.target(refuse), id="x")
    for _ in range(2):
        with pytest.raises(FlowError) as caught:
            await handle.result()
        error = caught.value
        assert (error.reason, error.type, error.details) == ("failed", "Refused", {"code": 7})
        assert "no thanks" in str(error)


async def test_a_result_that_does_not_fit(client: Client) -> None:
    """A result that does not fit the type asked for is a `DecodeError` that names the flow."""
    handle = await client.start(APP.target(greet), Lead("ada"), id="x")
    with pytest.raises(Failure, match="result of flow 'x'") as caught:
        await handle.result(result_type=int)
    assert caught.value.type == "DecodeError"


@pytest.mark.parametrize("timeout", [0.01, timedelta(milliseconds=10), 0])
async def test_a_waiter_gives_up(client: Client, timeout: Any) -> None:
    """Giving up raises the built-in `TimeoutError` and leaves the run alone."""
    handle = await client.start(WAIT, id="x")
    with pytest.raises(TimeoutError, match=r"^flow 'x' came to no outcome within 0.* s; it goes"):
        await handle.result(timeout=timeout)
    assert (await handle.describe()).status is Status.RUNNING
    await handle.signal("go", "on")
    assert await handle.result(timeout=5) == "on"


async def test_a_cancelled_waiter(client: Client) -> None:
    """A cancel of a waiter leaves the run alone, and the other waiters."""
    handle = await client.start(WAIT, id="x")
    waiters = [asyncio.create_task(handle.result()) for _ in range(2)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiters[0]
    await handle.signal("go", "on")
    assert await waiters[1] == "on"


async def test_query(client: Client) -> None:
    """A query decodes what the flow set, also after its end; a missing key gives None."""
    handle = await client.start(APP.target(greet), Lead("ada"), id="x")
    await handle.result()
    assert await handle.query("seen") == {"name": "ada", "score": 1}
    assert await handle.query("seen", result_type=Lead) == Lead("ada")
    assert await handle.query("unseen", result_type=Lead) is None
    with pytest.raises(Failure, match="state 'seen' of flow 'x'") as caught:
        await handle.query("seen", result_type=int)
    assert caught.value.type == "DecodeError"


async def test_a_message_id_is_delivered_once(client: Client) -> None:
    """The same `message_id` is delivered once, whichever call sends it."""
    flow = APP.target(collect)
    handle = await client.signal_with_start(flow, id="x", topic="t", value="a", message_id="m")
    await client.signal_with_start(flow, id="x", topic="t", value="b", message_id="m")
    await handle.signal("t", "c", message_id="m")
    await handle.signal("t", "d", message_id="n")
    await handle.signal("t", "end")
    assert await handle.result() == ["a", "d"]


async def test_terminate(client: Client) -> None:
    """Terminate ends the run with its reason; a second one changes nothing."""
    handle = await client.start(WAIT, id="x")
    await handle.terminate(reason="not needed")
    await handle.terminate(reason="again")
    with pytest.raises(FlowError, match="not needed") as caught:
        await handle.result()
    assert caught.value.reason is Reason.TERMINATED
    assert (await handle.describe()).status is Status.TERMINATED


async def test_a_missing_run(client: Client) -> None:
    """Every call of a handle to nothing raises `not-found`."""
    handle = client.handle("nobody")
    assert handle.created is False
    calls = (
        handle.result(),
        handle.signal("t", 1),
        handle.query("k"),
        handle.describe(),
        handle.terminate(),
    )
    for call in calls:
        with pytest.raises(FlowError) as caught:
            await call
        assert caught.value.reason is Reason.NOT_FOUND


async def test_a_typed_handle(client: Client) -> None:
    """A handle by id decodes as the type it was given."""
    await client.start(APP.target(greet), Lead("ada"), id="x")
    assert await client.handle("x", result_type=Lead).result() == Lead("ADA", 2)


async def test_list(client: Client) -> None:
    """`list` narrows by every filter, newest first."""
    for id in ("a-1", "a-2", "b-1"):
        await client.start(WAIT, id=id)
    await client.start(APP.target(greet), Lead("ada"), id="a-3")
    await client.handle("a-3").result()

    async def ids(**filters: Any) -> list[str]:
        return [one.id for one in await client.list(**filters)]

    assert await ids() == ["a-3", "b-1", "a-2", "a-1"]
    assert await ids(id_prefix="a-", limit=2) == ["a-3", "a-2"]
    assert await ids(flow="greet") == ["a-3"]
    assert await ids(app="office", status="completed") == ["a-3"]
    assert await ids(status=Status.RUNNING, id_prefix="b") == ["b-1"]
    newest = (await client.handle("a-3").describe()).started_at
    assert await ids(since=newest + timedelta(hours=1)) == []
    assert await ids(app="elsewhere") == []


LIST_ERRORS = [
    ({"limit": 0}, "limit must be a whole number above 0, not 0"),
    ({"limit": True}, "limit must be a whole number above 0, not True"),
    ({"limit": 1.5}, "limit must be a whole number above 0, not 1.5"),
    ({"status": "done"}, "no status 'done' (statuses: 'running', 'completed', 'failed', "),
    ({"since": datetime(2026, 1, 1)}, "since must be an aware datetime, not datetime"),  # noqa: DTZ001
]


@pytest.mark.parametrize(("filters", "message"), LIST_ERRORS)
async def test_a_bad_filter(client: Client, filters: dict[str, Any], message: str) -> None:
    """A filter that is not valid is refused, with what would be."""
    with pytest.raises(ValueError) as caught:
        await client.list(**filters)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("id", ["", None, 7, "a\0b", "\ud800"])
async def test_a_bad_id(client: Client, id: Any) -> None:
    """An id must be text that every engine can keep; nothing is asked of the engine."""
    for call in (
        client.start(WAIT, id=id),
        client.signal_with_start(WAIT, id=id, topic="t", value=1),
    ):
        with pytest.raises(ValueError, match=r"^id of a flow must be "):
            await call
    with pytest.raises(ValueError, match=r"^id of a flow must be "):
        client.handle(id)
    assert await client.list() == []


async def test_names_that_are_too_long(client: Client) -> None:
    """At most 255 bytes: the error tells the size, shows the begin, and says what to do."""
    longest = "\u00e4" * 127 + "x"
    handle = await client.start(WAIT, id=longest)
    told = (
        r"id of a flow must have at most 255 bytes, not 256 \('\u00e4{60}'\.\.\.\); "
        "shorten it, or take a hash of it"
    )
    with pytest.raises(ValueError, match=told):
        await client.start(WAIT, id="\u00e4" * 128)
    for call in (
        handle.signal("x" * 256, 1),
        handle.signal("t", 1, message_id="x" * 256),
        handle.query("x" * 256),
    ):
        with pytest.raises(ValueError, match="at most 255 bytes, not 256"):
            await call


async def test_bad_names(client: Client) -> None:
    """Topics, keys and message ids must be non-empty text."""
    handle = await client.start(WAIT, id="x")
    with pytest.raises(ValueError, match="topic must be a non-empty string, not ''"):
        await handle.signal("", 1)
    with pytest.raises(ValueError, match="message_id must be a non-empty string, not ''"):
        await handle.signal("t", 1, message_id="")
    with pytest.raises(ValueError, match="key must be a non-empty string, not None"):
        await handle.query(cast("str", None))


OPTION_ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"timeout": 0}, ValueError, "timeout must be above 0, not 0"),
    ({"timeout": -1}, ValueError, "timeout must be above 0, not -1"),
    ({"timeout": "1s"}, TypeError, "timeout must be a timedelta or a number of seconds, not '1s'"),
    ({"priority": 6}, ValueError, "priority must be 1 (first) to 5 (last), not 6"),
    ({"priority": 0}, ValueError, "priority must be 1 (first) to 5 (last), not 0"),
    ({"on_existing": "x"}, ValueError, "on_existing must be 'attach' or 'reject', not 'x'"),
    ({"on_existing": None}, ValueError, "on_existing must be 'attach' or 'reject', not None"),
    ({"timout": 1}, TypeError, "start() has no option 'timout'; did you mean 'timeout'?"),
    ({"colour": 1}, TypeError, "start() has no option 'colour'"),
]


@pytest.mark.parametrize(("options", "kind", "message"), OPTION_ERRORS)
async def test_a_bad_option(
    client: Client, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    """An option that is not valid is refused at the call, and nothing is started."""
    with pytest.raises(kind) as caught:
        await client.start(WAIT, id="x", **options)
    assert str(caught.value) == message
    assert await client.list() == []


async def test_a_bad_wait(client: Client) -> None:
    """A negative timeout of a wait is refused."""
    handle = await client.start(WAIT, id="x")
    with pytest.raises(ValueError, match="timeout must be 0 or more, not -1"):
        await handle.result(timeout=-1)


async def test_bad_arguments(client: Client) -> None:
    """Arguments that do not fit, or cannot be encoded, are a `TypeError` that names the flow."""
    for args in ((), (Lead("a"), 1), (object(),), ("text",)):
        with pytest.raises(TypeError, match="flow 'greet'"):
            await client.start(APP.target(greet), *args, id="x")
    with pytest.raises(TypeError, match="flow 'greet', argument 2"):
        await client.start(Target("office", "greet"), 1, object(), id="x")
    with pytest.raises(TypeError, match="message for topic 't'"):
        await client.handle("x").signal("t", object())
    assert await client.list() == []


TARGETS: list[tuple[Any, str]] = [
    (greet, "use app.target(greet)"),
    ("office/greet", 'use Target("app", "flow")'),
]


@pytest.mark.parametrize(("target", "remedy"), TARGETS)
async def test_a_bad_target(client: Client, target: Any, remedy: str) -> None:
    """Something that is no target is refused, with how to make one."""
    with pytest.raises(TypeError) as caught:
        await client.start(target, id="x")
    assert str(caught.value).startswith("start() takes a Target, not ")
    assert str(caught.value).endswith(remedy)
    with pytest.raises(TypeError, match=r"^signal_with_start\(\) takes a Target, not "):
        await client.signal_with_start(target, id="x", topic="t", value=1)


async def test_too_large() -> None:
    """Arguments and messages over `max_payload` are refused before the engine hears of them."""
    store = MemoryStore(RealClock())
    async with MemoryClient(store, max_payload=100) as client:
        big = "x" * 100
        for call in (
            client.start(WAIT, big, id="x"),
            client.signal_with_start(WAIT, id="x", topic="t", value=big),
            client.handle("x").signal("t", big),
        ):
            with pytest.raises(Failure, match="over the limit of 100") as caught:
                await call
            assert (caught.value.type, caught.value.non_retryable) == ("PayloadTooLarge", True)
        assert await client.list() == []
        await client.start(WAIT, "x" * 80, id="y")


class Engine:
    """An engine that knows nothing but how to be opened, asked for a result, and closed."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.failures: list[Exception] = []
        self.outcome: asyncio.Future[Outcome] = asyncio.Future()

    async def open(self) -> ClientEngine:
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        self.opened += 1
        return cast("ClientEngine", self)

    async def result(self, workflow_id: str) -> Outcome:
        return await self.outcome

    async def start(self, request: StartRequest) -> StartReply:
        return StartReply(True, request.app, request.flow, Status.RUNNING)

    async def close(self) -> None:
        self.closed += 1


async def test_it_opens_lazily_and_once() -> None:
    """A client connects at its first use, one time for all that use it at once."""
    engine = Engine()
    client = Client(engine.open)
    assert engine.opened == 0
    await asyncio.gather(*(client.start(WAIT, id=f"{n}") for n in range(3)))
    assert (engine.opened, engine.closed) == (1, 0)
    await client.close()
    await client.close()
    assert (engine.opened, engine.closed) == (1, 1)


async def test_the_block_opens_and_closes() -> None:
    """`async with` connects at once and closes at the end, also after an error."""
    engine = Engine()

    async def body() -> None:
        async with Client(engine.open):
            assert engine.opened == 1
            raise KeyError

    with pytest.raises(KeyError):
        await body()
    assert engine.closed == 1


async def test_a_failed_opening_is_tried_again() -> None:
    """An engine that cannot be reached is raised as it is; the next call tries again."""
    engine = Engine()
    engine.failures = [ConnectionError("cannot reach it")]
    client = Client(engine.open)
    with pytest.raises(ConnectionError, match="cannot reach it"):
        await client.start(WAIT, id="x")
    await client.start(WAIT, id="x")
    await client.close()


async def test_use_after_close() -> None:
    """A closed client says so, as do its handles; it does not connect again."""
    engine = Engine()
    client = Client(engine.open)
    handle = await client.start(WAIT, id="x")
    await client.close()
    for call in (client.start(WAIT, id="y"), client.list(), handle.result(), client.__aenter__()):
        with pytest.raises(RuntimeError, match="this client is closed; make a new one"):
            await call
    assert engine.opened == 1


async def test_close_without_use() -> None:
    """Closing a client that was never used connects to nothing."""
    engine = Engine()
    await Client(engine.open).close()
    assert (engine.opened, engine.closed) == (0, 0)


async def test_a_close_during_the_opening() -> None:
    """A close while the connection is being opened closes it, and later calls are refused."""
    engine = Engine()
    client = Client(engine.open)
    start = asyncio.create_task(client.start(WAIT, id="x"))
    await asyncio.sleep(0)
    await client.close()
    await asyncio.wait([start])
    assert engine.opened == engine.closed


async def test_the_engine_s_own_timeout_is_not_ours() -> None:
    """A `TimeoutError` that comes from the engine is raised as it is."""
    engine = Engine()
    engine.outcome.set_exception(TimeoutError("socket"))
    with pytest.raises(TimeoutError, match=r"^socket$"):
        await Client(engine.open).handle("x").result(timeout=5)
