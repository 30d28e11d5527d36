"""Contracts: a process is started, watched and ended as its owner declared it."""

# ruff: noqa: N802 - a test bears the id of its scenario
from __future__ import annotations

from typing import Any

import pytest

from iworkflow.contracts import (
    INVALID_TRANSITION,
    INVALID_WORKFLOW_ID,
    contract_handle,
    signal_with_start_contract,
    start_contract,
)
from iworkflow.core import Failure, FlowError, Handle, Reason, Status, Target
from iworkflow_lab.apps.pact import Approval, Created, Onboarding, Refused, onboarding
from iworkflow_lab.barrier import kill
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.suite.shared import Shared
from iworkflow_lab.suite.waits import held
from iworkflow_lab.until import until

OWNER = "iworkflow_lab.apps.contracted:app"
FOREIGN = "iworkflow_lab.apps.contracted:foreign"
NEIGHBOURS = "iworkflow_lab.apps.neighbours:app"

APPROVE, STATUS = onboarding.signals["approve"], onboarding.queries["status"]


async def neighbour(arena: Arena, flow: str, *args: Any, id: str) -> Handle[Any]:
    """Start a flow of the neighbour's app, and let its gates go."""
    handle = await arena.client.start(Target("neighbours", flow), *args, id=id)
    arena.let_go(f"{id}.all")
    return handle


async def failure(handle: Handle[Any]) -> FlowError:
    """Return what the run failed with."""
    with pytest.raises(FlowError) as caught:
        await handle.result(timeout=20)
    assert caught.value.reason is Reason.FAILED
    assert (await handle.describe()).status is Status.FAILED
    return caught.value


async def test_K01_a_typed_start(shared: Shared) -> None:
    """The id is the template's; message, query, state and outcome are the contract's types."""
    arena = await shared.arena_of(OWNER)
    handle = await start_contract(arena.client, onboarding, Onboarding("k01"), priority=1)
    assert (handle.id, handle.created) == ("org-k01", True)

    async def provisioning() -> bool:
        return await handle.state() == "provisioning"

    await until(provisioning, "it waits for an approval")
    assert await handle.query(STATUS) == {"done": 1}
    await handle.signal(APPROVE, Approval("me"), message_id="once")
    assert await handle.result(timeout=20) == Created("me")
    assert (await handle.describe()).flow == "organizationOnboarding"
    data = Onboarding("k01-both")
    both = await signal_with_start_contract(arena.client, onboarding, data, APPROVE, Approval("x"))
    assert await both.result(timeout=20) == Created("x")


async def test_K02_an_outcome_without_a_tag(shared: Shared) -> None:
    """What is recorded is the value alone; every reader finds its class."""
    arena = await shared.arena_of(OWNER)
    handle = await start_contract(arena.client, onboarding, Onboarding("k02", "refuse"))
    assert await handle.result(timeout=20) == Refused("no")
    plain = await arena.client.handle("org-k02").result()
    assert plain == {"reason": "no", "ok": False}
    again = contract_handle(arena.client, onboarding, "org-k02")
    assert await again.result() == Refused("no")


async def test_K03_a_child_of_a_contract(arena: Arena) -> None:
    """A flow gets the outcome typed, and the same one after its worker was killed."""
    await arena.worker(OWNER)
    victim = await arena.worker(NEIGHBOURS)
    target: Target[str] = Target("neighbours", "runs")
    handle = await arena.client.start(target, "k03", "refuse", id="k03")
    await held(arena, "k03", "after")
    await kill(arena, victim, "k03")
    await arena.worker(NEIGHBOURS)
    await held(arena, "k03", "after")
    arena.let_go("k03.all")
    assert await handle.result(timeout=40) == "refused no"
    assert (await arena.client.handle("org-k03").describe()).parent_id == "k03"
    started = await neighbour(arena, "starts", "k03-b", id="k03-starts")
    assert await started.result(timeout=20) == ["org-k03-b", True, True]


async def test_K04_an_input_that_gives_no_id(shared: Shared) -> None:
    """In a flow it is a failure of its type, once; caught, the flow goes on."""
    await shared.arena_of(OWNER)
    arena = await shared.arena_of(NEIGHBOURS)
    for number, code in enumerate(("", " \t", "a\nb")):
        id = f"k04-{number}"
        error = await failure(await neighbour(arena, "runs", code, "refuse", id=id))
        assert error.type == INVALID_WORKFLOW_ID
        assert "workflow_id: field 'code' is " in str(error)
        assert arena.log.ended(id) == {("quick", "before"): 1}
    told = await (await neighbour(arena, "catches", "", id="k04-caught")).result(timeout=20)
    why = "contract 'organizationOnboarding': workflow_id: field 'code' is empty: ''"
    assert told == f"True {why}"
    with pytest.raises(Failure) as caught:
        await start_contract(arena.client, onboarding, Onboarding(""))
    assert caught.value.type == INVALID_WORKFLOW_ID


async def test_K05_a_foreign_outcome(arena: Arena) -> None:
    """A worker without the contract is found out by client and parent; with it, by itself."""
    stranger = await arena.worker(FOREIGN)
    await arena.worker(NEIGHBOURS)
    handle = await start_contract(arena.client, onboarding, Onboarding("k05"))
    with pytest.raises(Failure) as caught:
        await handle.result(timeout=20)
    assert (caught.value.type, caught.value.non_retryable) == ("DecodeError", True)
    assert set(caught.value.details) == {"created", "refused"}
    error = await failure(await neighbour(arena, "runs", "k05-child", "", id="k05-parent"))
    assert error.type == "DecodeError"
    assert "the value fits no outcome: created" in str(error)
    assert "refused" in str(error)
    await stranger.stop()
    await arena.worker(OWNER)
    own = await start_contract(arena.client, onboarding, Onboarding("k05-own", "strange"))
    error = await failure(own.handle)
    assert error.type == "EncodeError"
    assert arena.log.ended("org-k05-own") == {("quick", "first"): 1}


async def test_K06_a_foreign_input_of_an_older_starter(shared: Shared) -> None:
    """The run fails once and for all, naming the path; no code of the flow runs."""
    arena = await shared.arena_of(OWNER)
    plain: Target[Any] = Target("contracted", "organizationOnboarding")
    for id, data, path in (
        ("k06-missing", {"kode": "1"}, "missing required field code"),
        ("k06-type", {"code": 1}, "data.code: Expected str, got int"),
    ):
        error = await failure(await arena.client.start(plain, data, id=id))
        assert error.type == "DecodeError"
        assert path in str(error)
        assert arena.log.read(id) == []


async def test_K07_the_same_input_is_the_same_run(shared: Shared) -> None:
    """A second start and a child attach to it, while it runs and after its end."""
    await shared.arena_of(NEIGHBOURS)
    arena = await shared.arena_of(OWNER)
    first = await start_contract(arena.client, onboarding, Onboarding("k07"))
    second = await start_contract(arena.client, onboarding, Onboarding("k07"))
    assert (first.created, second.created) == (True, False)
    child = await neighbour(arena, "runs", "k07", "create", id="k07-parent")
    await first.signal(APPROVE, Approval("me"))
    assert await first.result(timeout=20) == await second.result(timeout=20) == Created("me")
    assert await child.result(timeout=20) == "created me"
    third = await start_contract(arena.client, onboarding, Onboarding("k07"))
    assert (third.created, await third.result(timeout=20)) == (False, Created("me"))
    assert arena.log.ended("org-k07") == {("quick", "first"): 1}
    with pytest.raises(FlowError) as caught:
        await start_contract(arena.client, onboarding, Onboarding("k07"), on_existing="reject")
    assert caught.value.reason is Reason.ALREADY_STARTED


async def test_K08_a_foreign_message(shared: Shared) -> None:
    """Received, it is a final failure that names the path."""
    arena = await shared.arena_of(OWNER)
    handle = await start_contract(arena.client, onboarding, Onboarding("k08"))
    await handle.handle.signal("approve", {"by": 7})
    error = await failure(handle.handle)
    assert error.type == "DecodeError"
    assert "signal 'approve' of contract 'organizationOnboarding': value.by: " in str(error)


async def test_K09_a_step_off_the_states(shared: Shared) -> None:
    """An outcome that may not follow is a final failure; the state stays where it was."""
    arena = await shared.arena_of(OWNER)
    handle = await start_contract(arena.client, onboarding, Onboarding("k09", "skip"))
    error = await failure(handle.handle)
    assert error.type == INVALID_TRANSITION
    assert str(error).endswith(
        "'created' cannot follow 'checking' (next: 'provisioning', 'refused')"
    )
    assert await handle.state() == "checking"


async def test_K10_a_walk_through_the_states_is_replayed(arena: Arena) -> None:
    """Killed on its way, the run walks the same states, and on."""
    victim = await arena.worker(OWNER)
    handle = await start_contract(arena.client, onboarding, Onboarding("k10", "held"))
    await held(arena, handle.id, "k")
    assert await handle.state() == "checking"
    await kill(arena, victim, handle.id)
    await arena.worker(OWNER)
    await held(arena, handle.id, "k")
    arena.let_go(f"{handle.id}.all")
    await handle.signal(APPROVE, Approval("me"))
    assert await handle.result(timeout=40) == Created("me")
    assert await handle.state() == "provisioning"
    assert arena.log.ended(handle.id) == {("quick", "first"): 1, ("work", "k"): 1}
