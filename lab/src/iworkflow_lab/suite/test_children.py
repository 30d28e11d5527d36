"""Children: runs of their own, whoever started them and however that one ends."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from iworkflow.core import FlowError, Handle, Reason, Status, Target
from iworkflow_lab.apps.children import Lead, Mood, Profile, app
from iworkflow_lab.apps.children import typed as typed_flow
from iworkflow_lab.barrier import kill
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import ended, held, shows
from iworkflow_lab.until import until

APP = "iworkflow_lab.apps.children:app"
NURSERY = "iworkflow_lab.apps.nursery:app"

both_calls = pytest.mark.parametrize("call", ["waits_for", "starts"])
"""`child` and `start_child`."""


def target(flow: str) -> Target[Any]:
    """Name a flow of the children app."""
    return Target("children", flow)


async def parent(
    arena: Arena, call: str, id: str, child: str, *, flow: str = "one", **options: Any
) -> Handle[dict[str, Any]]:
    """Start a parent that runs `child` by one of the two calls; its key is `k`."""
    return await arena.client.start(target(call), flow, "k", child, options, id=id)


async def status(arena: Arena, id: str) -> Status:
    """Return the status of a run."""
    return (await arena.client.handle(id).describe()).status


def cancels(arena: Arena, run: str) -> list[str]:
    """Return the keys of the run's steps that were cancelled."""
    return [effect.key for effect in arena.log.read(run) if effect.what == "cancel"]


async def test_C01_a_child_gives_a_typed_value(shared: Shared) -> None:
    """A child's value is equal and typed by its function or as asked; else it is plain JSON."""
    arena = await shared.arena_of(APP)
    lead = Lead("Ada", date(1815, 12, 10))
    expected = Profile(lead, Mood.GLAD, frozenset({"a", "b"}), datetime(2026, 1, 2, 3, 4, 5))  # noqa: DTZ001
    handle = await arena.client.start(app.target(typed_flow), lead, "c01-child", id="c01")
    by_function, as_asked, plain = await handle.result(timeout=20)
    assert by_function == as_asked == expected
    assert plain == {
        "lead": {"name": "Ada", "born": "1815-12-10"},
        "mood": "glad",
        "tags": ["a", "b"],
        "at": "2026-01-02T03:04:05",
    }
    assert arena.log.ended("c01-child") == {("quick", "a"): 1, ("quick", "b"): 1}


BROKEN = {
    "refused": ("Refused", {"key": "k"}),
    "stumbled": ("LookupError", None),
    "slow": ("timeout", None),
    "bad": ("KeyError", None),
}
"""What a child of each flow fails with."""


@both_calls
@pytest.mark.parametrize("flow", BROKEN)
async def test_C02_a_failed_child_tells_why(shared: Shared, flow: str, call: str) -> None:
    """Whatever broke in a child: `failed`, the inner type and details, the child's id."""
    arena = await shared.arena_of(APP)
    id = f"c02-{flow}-{call}"
    handle = await parent(arena, call, id, f"{id}-child", flow=flow)
    told = await handle.result(timeout=20)
    message = told.pop("message")
    type, details = BROKEN[flow]
    assert told == {"reason": "failed", "type": type, "details": details, "exhausted": False}
    assert f"'{id}-child'" in message
    assert await status(arena, f"{id}-child") is Status.FAILED
    assert await status(arena, id) is Status.COMPLETED


@both_calls
async def test_C03_a_child_has_its_own_timeout(shared: Shared, call: str) -> None:
    """A child past its `timeout` is timed-out, its step cancelled; its parent reads `timeout`."""
    arena = await shared.arena_of(APP)
    id = f"c03-{call}"
    handle = await parent(arena, call, id, f"{id}-child", timeout=1.5)
    await held(arena, f"{id}-child", "k")
    told = await handle.result(timeout=20)
    assert (told["reason"], told["type"], told["exhausted"]) == ("timeout", None, False)
    assert f"'{id}-child'" in told["message"]
    child = await arena.client.handle(f"{id}-child").describe()
    assert child.status is Status.TIMED_OUT
    await until(lambda: cancels(arena, f"{id}-child") == ["k"], "the child's step is cancelled")
    assert await status(arena, id) is Status.COMPLETED


@both_calls
async def test_C04_a_running_id_is_refused(shared: Shared, call: str) -> None:
    """Under `reject`, which `start_child` does unasked, a running id is `already-started`."""
    arena = await shared.arena_of(APP)
    id = f"c04-{call}"
    child = await arena.client.start(target("one"), "k", id=f"{id}-child")
    await held(arena, f"{id}-child", "k")
    asked = {} if call == "starts" else {"on_existing": "reject"}
    told = await (await parent(arena, call, id, f"{id}-child", **asked)).result(timeout=20)
    assert told["reason"] == "already-started"
    assert f"'{id}-child'" in told["message"]
    arena.let_go(f"{id}-child.all")
    assert await child.result(timeout=20) == "k"
    assert arena.log.begun(f"{id}-child") == {("work", "k"): 1}


@both_calls
async def test_C05_a_running_id_is_attached_to(shared: Shared, call: str) -> None:
    """Under `attach`, which `child` does unasked, three callers share one run and its result."""
    arena = await shared.arena_of(APP)
    id = f"c05-{call}"
    asked = {} if call == "waits_for" else {"on_existing": "attach"}
    child = await arena.client.start(target("one"), "k", id=f"{id}-child")
    await held(arena, f"{id}-child", "k")
    parents = [await parent(arena, call, f"{id}-{n}", f"{id}-child", **asked) for n in (1, 2)]
    if call == "starts":
        for one in parents:
            await shows(one, "started", {"id": f"{id}-child", "created": False})
    arena.let_go(f"{id}-child.all")
    assert [await one.result(timeout=20) for one in parents] == [{"value": "k"}] * 2
    assert await child.result(timeout=20) == "k"
    assert arena.log.begun(f"{id}-child") == {("work", "k"): 1}
    assert (await child.describe()).parent_id is None


@both_calls
async def test_C06_a_finished_id_gives_its_outcome(shared: Shared, call: str) -> None:
    """`attach` gives a finished id's value or error; `reject` refuses it, as does another flow."""
    arena = await shared.arena_of(APP)
    id = f"c06-{call}"
    arena.let_go(f"{id}-good.all")
    good = await arena.client.start(target("one"), "k", id=f"{id}-good")
    broken = await arena.client.start(target("refused"), "k", id=f"{id}-broken")
    assert await good.result(timeout=20) == "k"
    with pytest.raises(FlowError):
        await broken.result(timeout=20)

    async def told(place: int, flow: str, existing: str) -> dict[str, Any]:
        child = broken.id if flow == "refused" else good.id
        wait = await parent(arena, call, f"{id}-{place}", child, flow=flow, on_existing=existing)
        return await wait.result(timeout=20)

    assert await told(1, "one", "attach") == {"value": "k"}
    failed = await told(2, "refused", "attach")
    assert (failed["reason"], failed["type"], failed["details"]) == (
        "failed",
        "Refused",
        {"key": "k"},
    )
    assert (await told(3, "one", "reject"))["reason"] == "already-started"
    assert (await told(4, "two", "attach"))["reason"] == "already-started"
    assert arena.log.begun(good.id) == {("work", "k"): 1}
    assert arena.log.begun(broken.id) == {("refuse", "k"): 1}


async def test_C07_a_replay_finds_the_same_child(arena: Arena) -> None:
    """A parent killed while its child runs goes on with that one child, which it created."""
    worker = await arena.worker(APP)
    calls = ["waits_for", "starts"]
    handles = [await parent(arena, call, call, f"{call}-child", flow="two") for call in calls]
    children = [arena.client.handle(f"{call}-child") for call in calls]
    for child in children:
        await held(arena, child.id, "k")
    before = [await child.describe() for child in children]
    await kill(arena, worker, children[0].id)
    await arena.worker(APP)
    for child in children:
        await held(arena, child.id, "k")
    await shows(handles[1], "started", {"id": "starts-child", "created": True})
    assert [await child.describe() for child in children] == before
    assert [child.parent_id for child in before] == calls
    for child in children:
        arena.let_go(f"{child.id}.all")
    assert [await handle.result(timeout=40) for handle in handles] == [{"value": "k-first k"}] * 2
    assert len(await arena.client.list()) == 4
    for child in children:
        assert arena.log.ended(child.id) == {("quick", "k-first"): 1, ("work", "k"): 1}


@both_calls
async def test_C08_a_child_of_another_app(shared: Shared, call: str) -> None:
    """A child may be a flow of another app, with a worker of its own."""
    arena = await shared.arena_of(APP)
    await shared.arena_of(NURSERY)
    id = f"c08-{call}"
    arena.let_go(f"{id}-child.all")
    handle = await parent(arena, call, id, f"{id}-child", flow="raised")
    assert await handle.result(timeout=20) == {"value": f"k of {id}"}
    child = await arena.client.handle(f"{id}-child").describe()
    assert (child.app, child.flow, child.parent_id) == ("nursery", "raised", id)
    assert arena.log.begun(f"{id}-child") == {("work", "k"): 1}


async def test_C09_the_other_app_is_down(arena: Arena) -> None:
    """A parent whose child's app has no worker waits, and completes once there is one."""
    await arena.worker(APP)
    arena.let_go("c09-child.all")
    handle = await parent(arena, "waits_for", "c09", "c09-child", flow="raised")

    async def there() -> bool:
        return bool(await arena.client.list(id_prefix="c09-child"))

    await until(there, "the child is started")
    with pytest.raises(TimeoutError):
        await handle.result(timeout=1)
    assert [await status(arena, id) for id in ("c09", "c09-child")] == [Status.RUNNING] * 2
    assert not arena.log.begun("c09-child")
    await arena.worker(NURSERY)
    assert await handle.result(timeout=30) == {"value": "k of c09"}
    assert arena.log.begun("c09-child") == {("work", "k"): 1}


async def test_C10_start_child_returns_once_it_is_durable(arena: Arena) -> None:
    """`start_child` returns before the child ends, and no KILL after that loses the child."""
    worker = await arena.worker(APP)
    handle = await parent(arena, "starts", "c10", "c10-child", flow="raised")
    await shows(handle, "started", {"id": "c10-child", "created": True})
    await kill(arena, worker, "c10")
    assert await status(arena, "c10-child") is Status.RUNNING
    assert not arena.log.begun("c10-child")
    await arena.worker(NURSERY)
    await held(arena, "c10-child", "k")
    arena.let_go("c10-child.all")
    child = arena.client.handle("c10-child")
    assert await child.result(timeout=20) == "k of c10"
    await arena.worker(APP)
    assert await handle.result(timeout=40) == {"value": "k of c10"}
    assert arena.log.begun("c10-child") == {("work", "k"): 1}


async def test_C11_a_child_outlives_its_parents_end(shared: Shared) -> None:
    """A parent that returns leaves its child running."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("leaves"), "one", "k", "c11-child", id="c11")
    assert await handle.result(timeout=20) == "c11-child"
    await held(arena, "c11-child", "k")
    assert (await handle.describe()).status is Status.COMPLETED
    await runs_on(arena, "c11-child")


@pytest.mark.parametrize("how", ["terminated", "timed-out"])
async def test_C12_a_child_outlives_a_parent_that_is_ended(shared: Shared, how: str) -> None:
    """A parent that is terminated, or past its deadline, leaves its child running."""
    arena = await shared.arena_of(APP)
    id, child = f"c12-{how}", f"c12-{how}-child"
    timeout = 2.0 if how == "timed-out" else None
    handle = await arena.client.start(
        target("waits_for"), "one", "k", child, {}, id=id, timeout=timeout
    )
    await held(arena, child, "k")
    if how == "terminated":
        await handle.terminate()
    with pytest.raises(FlowError) as caught:
        await handle.result(timeout=20)
    reason = Reason.TERMINATED if how == "terminated" else Reason.TIMEOUT
    assert caught.value.reason is reason
    assert await status(arena, id) is Status(how)
    await runs_on(arena, child)


async def runs_on(arena: Arena, child: str) -> None:
    """Check that a child whose step `k` is held goes on to its end."""
    assert await status(arena, child) is Status.RUNNING
    arena.let_go(f"{child}.all")
    assert await arena.client.handle(child).result(timeout=20) == "k"
    assert not cancels(arena, child)
    assert arena.log.begun(child) == arena.log.ended(child) == {("work", "k"): 1}


async def test_C13_a_failing_sibling_ends_the_wait_alone(shared: Shared) -> None:
    """A sibling that fails in a TaskGroup cancels the wait for a child, and not the child."""
    arena = await shared.arena_of(APP)
    handle = await arena.client.start(target("aborts"), "k", "c13-child", id="c13")
    await held(arena, "c13-child", "k")
    await ended(arena, "c13", "sibling")
    trace = ["the wait was cancelled", "the sibling failed"]
    await shows(handle, "trace", trace)
    await runs_on(arena, "c13-child")
    arena.let_go("c13.all")
    assert await handle.result(timeout=20) == [*trace, "after"]


async def test_C14_children_inherit_their_parents_priority(shared: Shared) -> None:
    """A child has the priority that its call gives, else its parent's; its steps go by it."""
    arena = await shared.arena_of(APP)
    first = await arena.client.start(target("in_pool"), "first", id="c14-first")
    await held(arena, "c14-first", "first")
    priorities = [5, 3, None, None, 1, 2]
    ids = [f"c14-{place}" for place in range(len(priorities))]
    handle = await arena.client.start(target("ranks"), ids, priorities, id="c14", priority=4)
    for id in ids:
        await made(arena, id, "asked")
    # A step that was asked for has come to its pool when a whole run has passed since.
    later = await arena.client.start(target("refused"), "later", id="c14-later")
    with pytest.raises(FlowError):
        await later.result(timeout=20)
    got = [(await arena.client.handle(id).describe()).priority for id in ids]
    assert got == [5, 3, 4, 4, 1, 2]
    for id in [*ids, "c14-first"]:
        arena.let_go(f"{id}.all")
    assert await handle.result(timeout=20) == got
    assert await first.result(timeout=20) == 3
    assert [got[ids.index(id)] for id in ranked(arena, ids)] == sorted(got)


async def made(arena: Arena, run: str, key: str) -> None:
    """Wait until a step of the key has ended."""
    await until(lambda: ("quick", key) in arena.log.ended(run), f"{run} made {key}")


def ranked(arena: Arena, ids: list[str]) -> list[str]:
    """Return the runs in the order in which their steps had the pool."""
    begun = [e for e in arena.log.read() if e.what == "begin" and e.step == "ranked"]
    return [effect.run for effect in begun if effect.run in ids]
