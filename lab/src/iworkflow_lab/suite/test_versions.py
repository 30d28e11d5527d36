"""Versions: an app's code changes while its runs are on their way."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from iworkflow.core import FlowError, Handle, Target
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import held, shows
from iworkflow_lab.until import until

OLD, NEW, DEPRECATED, REMOVED = (
    f"iworkflow_lab.apps.versions.{name}:app" for name in ("old", "new", "deprecated", "removed")
)
OLD_PATH = ["old way", "past"]
NEW_PATH = ["new way/new, too", "past"]
ENDS = {("held", "ahead"): 1, ("held", "past"): 1}
OLD_EFFECTS = ENDS | {("noted", "old way"): 1}
NEW_EFFECTS = ENDS | {("noted", "new way"): 1, ("noted", "new, too"): 1}


def target(flow: str) -> Target[Any]:
    """Name a flow of the versions app."""
    return Target("versions", flow)


async def deploy(shared: Shared, *versions: str) -> Arena:
    """Have one worker of each of these versions, and none of the others."""
    for version in (OLD, NEW, DEPRECATED, REMOVED):
        if version not in versions:
            await shared.stop(version)
    for version in versions:
        await shared.arena_of(version)
    return shared.arena


PLACES = ["ahead", "receiving", "past"]
"""Where a run waits when the code is changed."""


async def waiting(arena: Arena, run: str, place: str) -> Handle[Any]:
    """Start a run and bring it to a place."""
    handle = await arena.client.start(target("changes"), id=run)
    await held(arena, run, "ahead")
    if place != "ahead":
        arena.let_go(f"{run}.ahead")
        await until(lambda: arena.log.ended(run)["held", "ahead"], "the gate is passed")
    if place == "past":
        await handle.signal("go", True)
        await held(arena, run, "past")
    return handle


async def waiting_everywhere(arena: Arena, prefix: str) -> dict[str, Handle[Any]]:
    """Start a run for each place."""
    return {place: await waiting(arena, f"{prefix}-{place}", place) for place in PLACES}


async def finished(arena: Arena, handle: Handle[Any], place: str) -> Any:
    """Let a run go on from its place to its end."""
    if place != "past":
        await handle.signal("go", True)
    arena.let_go(f"{handle.id}.all")
    return await handle.result(timeout=30)


async def test_V01_born_with_it(shared: Shared) -> None:
    """A run that is born under code that declares the patch goes the new way, after a KILL too."""
    arena = await deploy(shared, NEW)
    handles = await waiting_everywhere(arena, "v01")
    await shared.kill(NEW)
    await deploy(shared, NEW)
    for place, handle in handles.items():
        assert await handle.query("born") == "new"
        assert await finished(arena, handle, place) == NEW_PATH
        assert arena.log.ended(handle.id) == NEW_EFFECTS


async def test_V02_born_before_it(shared: Shared) -> None:
    """Runs older than the patch go the old way to their end, wherever they waited."""
    arena = await deploy(shared, OLD)
    handles = await waiting_everywhere(arena, "v02")
    await deploy(shared, NEW)
    for place, handle in handles.items():
        assert await finished(arena, handle, place) == OLD_PATH
        assert await handle.query("born") == "old"
        assert arena.log.ended(handle.id) == OLD_EFFECTS
    young = await waiting(arena, "v02-young", "ahead")
    assert await finished(arena, young, "ahead") == NEW_PATH
    assert arena.log.ended("v02-young") == NEW_EFFECTS


@pytest.mark.parametrize(("birth", "answer"), [(OLD, False), (NEW, True)], ids=["old", "new"])
async def test_V03_asked_again(shared: Shared, birth: str, answer: bool) -> None:
    """Asked from two branches at once, before and after a KILL, it says the same."""
    arena = await deploy(shared, birth)
    run = f"v03-{answer}"
    handle = await arena.client.start(target("asks"), id=run)
    await held(arena, run, "one", "two")
    arena.let_go(f"{run}.two")
    await until(lambda: arena.log.ended(run)["held", "two"], "a branch is through")
    await shared.kill(birth)
    await deploy(shared, NEW)
    await held(arena, run, "one")
    arena.let_go(f"{run}.all")
    assert await handle.result(timeout=30) == [answer] * 8
    assert set(arena.log.ended(run)) == {("held", key) for key in ("one", "two", "last")}
    assert arena.log.ended(run)["held", "one"] == 1


async def test_V04_stable_across_kills(shared: Shared) -> None:
    """Born under old code, killed, on under new code, killed again: the old way all along."""
    arena = await deploy(shared, OLD)
    handle = await waiting(arena, "v04", "ahead")
    await shared.kill(OLD)
    await deploy(shared, NEW)
    await held(arena, "v04", "ahead")
    await shows(handle, "born", "old")
    await handle.signal("go", True)
    arena.let_go("v04.ahead")
    await held(arena, "v04", "past")
    await shared.kill(NEW)
    await deploy(shared, NEW)
    await held(arena, "v04", "past")
    arena.let_go("v04.past")
    assert await handle.result(timeout=30) == OLD_PATH
    assert await handle.query("born") == "old"
    assert arena.log.ended("v04") == OLD_EFFECTS


async def test_V05_deprecated_for_a_run_born_with_it(shared: Shared) -> None:
    """`deprecate_patch` changes nothing for a run born with the patch, nor for a new one."""
    arena = await deploy(shared, NEW)
    handles = await waiting_everywhere(arena, "v05")
    await deploy(shared, DEPRECATED)
    handles["young"] = await waiting(arena, "v05-young", "ahead")
    for place, handle in handles.items():
        assert await finished(arena, handle, place) == NEW_PATH
        assert arena.log.ended(handle.id) == NEW_EFFECTS
    assert "parked" not in lines_about(arena, "v05")


def lines_about(arena: Arena, run: str) -> str:
    """Return the lines of the workers' log that name a run."""
    return "\n".join(line for line in arena.printed().splitlines() if run in line)


async def parked(arena: Arena, run: str) -> None:
    """Wait until a worker has said that it parks the run."""
    await until(lambda: "parked" in lines_about(arena, repr(run)), f"{run} is parked")


async def test_V06_deprecated_for_an_older_run(shared: Shared) -> None:
    """Under `deprecate_patch` an older run is parked, loudly; the old code back, it goes on."""
    arena = await deploy(shared, OLD)
    handles = await waiting_everywhere(arena, "v06")
    await deploy(shared, DEPRECATED)
    for place, handle in handles.items():
        if place != "past":
            await handle.signal("go", True)
        arena.let_go(f"{handle.id}.all")
        await parked(arena, handle.id)
        assert "'new-way'" in lines_about(arena, repr(handle.id))
    young = await waiting(arena, "v06-young", "ahead")
    assert await finished(arena, young, "ahead") == NEW_PATH
    for place, handle in handles.items():
        assert (await handle.describe()).status == "running"
        begun = {key for _, key in arena.log.begun(handle.id)}
        assert begun <= {"ahead", *(["old way", "past"] if place == "past" else [])}
        await handle.signal("unread", True)
    again = await waiting(arena, "v06-again", "ahead")
    assert await finished(arena, again, "ahead") == NEW_PATH
    for handle in handles.values():
        said = lines_about(arena, repr(handle.id)).splitlines()
        assert len([line for line in said if "parked" in line]) == 1
    await deploy(shared, NEW)
    for handle in handles.values():
        assert await handle.result(timeout=30) == OLD_PATH
        assert arena.log.ended(handle.id) == OLD_EFFECTS


async def test_V07_call_and_id_removed(shared: Shared) -> None:
    """Call and id gone, runs that were born with the patch go on the new way."""
    arena = await deploy(shared, NEW)
    handles = await waiting_everywhere(arena, "v07")
    await deploy(shared, REMOVED)
    handles["young"] = await waiting(arena, "v07-young", "ahead")
    for place, handle in handles.items():
        assert await finished(arena, handle, place) == NEW_PATH
        assert arena.log.ended(handle.id) == NEW_EFFECTS
    assert "parked" not in lines_about(arena, "v07")


async def test_V08_an_undeclared_id(shared: Shared) -> None:
    """An id that the app does not declare raises `ValueError`: names it, and those declared."""
    arena = await deploy(shared, NEW)
    handle = await arena.client.start(target("strays"), id="v08")
    said = await handle.result(timeout=20)
    assert len(said) == 2
    assert all("'new-wya'" in line and "'new-way'" in line for line in said)
    assert arena.log.ended("v08") == {("noted", "patched"): 1, ("noted", "deprecate_patch"): 1}
    uncaught = await arena.client.start(target("strays_uncaught"), id="v08-uncaught")
    with pytest.raises(FlowError, match="undeclared") as raised:
        await uncaught.result(timeout=20)
    assert (raised.value.reason, raised.value.type) == ("failed", "ValueError")
    assert arena.log.ended("v08-uncaught") == {("noted", "before"): 1}


async def test_V09_two_versions_at_once(shared: Shared) -> None:
    """While both versions run, and after the old one has gone, each run keeps its birth's way."""
    arena = await deploy(shared, OLD)
    handles = [await waiting(arena, f"v09-{n}", PLACES[n % 3]) for n in range(6)]
    await deploy(shared, OLD, NEW)
    handles += [await waiting(arena, f"v09-{n}", PLACES[n % 3]) for n in range(6, 18)]
    births = [await handle.query("born") for handle in handles]
    assert births[:6] == ["old"] * 6
    over = [0, 1, 2, 6, 7, 8]
    ends = {n: await finished(arena, handles[n], PLACES[n % 3]) for n in over}
    await deploy(shared, NEW)
    for n, handle in enumerate(handles):
        if n not in over:
            ends[n] = await finished(arena, handle, PLACES[n % 3])
    for n, handle in enumerate(handles):
        old = births[n] == "old"
        assert ends[n] == (OLD_PATH if old else NEW_PATH)
        assert await handle.query("born") == births[n]
        assert arena.log.ended(handle.id) == (OLD_EFFECTS if old else NEW_EFFECTS)
    last = await waiting(arena, "v09-last", "ahead")
    assert await finished(arena, last, "ahead") == NEW_PATH


async def born_new(arena: Arena) -> Handle[Any]:
    """Start runs until one was born under the new code."""
    for number in range(40):
        handle = await waiting(arena, f"v09-born-{number}", "ahead")
        await until(partial(handle.query, "born"), "the run tells how it was born")
        if await handle.query("born") == "new":
            return handle
    raise AssertionError("the worker of the new code takes no run")


async def test_V09_an_older_worker_leaves_a_younger_run(shared: Shared) -> None:
    """The new code's worker dies: the old one leaves what was born under the new code, and says so.

    It would go the old way, and the new code could not carry that on.
    """
    await deploy(shared, OLD)
    arena = await deploy(shared, OLD, NEW)
    handle = await born_new(arena)
    await shared.kill(NEW)
    await handle.signal("go", True)
    arena.let_go(f"{handle.id}.all")
    await until(
        lambda: "waits for a worker" in lines_about(arena, repr(handle.id)), "the run is left"
    )
    await deploy(shared, OLD, NEW)
    assert await handle.result(timeout=90) == NEW_PATH
    assert arena.log.ended(handle.id) == NEW_EFFECTS
    assert lines_about(arena, repr(handle.id)).count("waits for a worker") == 1
