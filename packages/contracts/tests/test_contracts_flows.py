"""Flows of a contract on the memory engine: started typed, kept to it, read by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import msgspec
import pytest

from iworkflow.contracts import (
    INVALID_TRANSITION,
    INVALID_WORKFLOW_ID,
    ContractContext,
    Message,
    State,
    WorkflowContract,
    child_contract,
    contract_handle,
    define_workflow_contract,
    implements,
    signal_with_start_contract,
    start_child_contract,
    start_contract,
)
from iworkflow.core import AppDefinition, Context, Failure, FlowError, Target
from iworkflow.core.testing import FlowTest


class Input(msgspec.Struct, frozen=True):
    code: str
    path: str = ""


@dataclass(frozen=True)
class Created:
    organization_id: str
    ok: Literal[True] = True


@dataclass(frozen=True)
class Refused:
    reason: str
    ok: Literal[False] = False


class Approval(msgspec.Struct, frozen=True):
    by: str


class Signals(TypedDict):
    approve: Message[Approval]
    remark: Message[str]


class Queries(TypedDict):
    status: Message[dict[str, int]]


Contract = WorkflowContract[Input, Created | Refused, Signals, Queries]

onboarding: Contract = define_workflow_contract(
    name="organizationOnboarding",
    task_queue="iprofile",
    workflow_id="iprofile-org-{code}",
    input=Input,
    outcomes={"created": Created, "refused": Refused},
    states={
        "checking": State(next=["provisioning", "refused"]),
        "provisioning": State(next=["created"]),
    },
    signals={"approve": Message("a manager approved", Approval), "remark": Message("said", str)},
    queries={"status": Message("where it stands", dict[str, int])},
)


@implements(onboarding)
async def flow(ctx: ContractContext, data: Input) -> Created | Refused:
    """Do as the input's path says."""
    await ctx.set_state("state", "checking")
    await ctx.set_state(onboarding.queries["status"], {"seen": 1})
    if data.path == "refused":
        return Refused("no")
    await ctx.set_state("state", "provisioning")
    await ctx.set_state("state", "provisioning")
    approval = await ctx.recv(onboarding.signals["approve"], 60)
    return Created("nobody" if approval is None else approval.by)


async def parent(ctx: Context, code: str, path: str) -> str:
    outcome = await child_contract(ctx, onboarding, Input(code, path))
    match outcome:
        case Created():
            return outcome.organization_id
        case Refused():
            return outcome.reason


async def patron(ctx: Context, code: str) -> list[Any]:
    child = await start_child_contract(ctx, onboarding, Input(code))
    await child.signal(onboarding.signals["approve"], Approval("patron"))
    assert repr(child) == f"<ContractChild 'iprofile-org-{code}' of 'organizationOnboarding'>"
    return [child.id, child.created, (await child.result()).ok]


app = AppDefinition("iprofile", flows=[flow])
neighbours = AppDefinition("ioutreach", flows=[parent, patron])


async def test_a_typed_start_and_outcome() -> None:
    """The id comes from the template; input, messages, state and outcome are read as declared."""
    async with FlowTest(app) as t:
        handle = await start_contract(t.client, onboarding, Input("7"))
        assert (handle.id, handle.created) == ("iprofile-org-7", True)
        assert repr(handle) == "<ContractHandle 'iprofile-org-7' of 'organizationOnboarding'>"
        assert await handle.state() is None
        await handle.signal(onboarding.signals["approve"], Approval("me"))
        assert await handle.result() == Created("me")
        assert await handle.state() == "provisioning"
        assert await handle.query(onboarding.queries["status"]) == {"seen": 1}
        assert (await handle.describe()).flow == "organizationOnboarding"
        await handle.terminate(reason="a finished one stays")
        again = await start_contract(t.client, onboarding, Input("7"))
        assert (again.created, await again.result()) == (False, Created("me"))
        by_input = contract_handle(t.client, onboarding, Input("7"))
        by_id = contract_handle(t.client, onboarding, "iprofile-org-7")
        assert await by_input.result() == await by_id.result() == Created("me")


async def test_outcomes_are_told_apart_without_a_tag() -> None:
    """What stands on the wire is the value alone; a neighbour reads its class."""
    async with FlowTest(app) as t:
        handle = await start_contract(t.client, onboarding, Input("7", "refused"))
        assert await handle.result() == Refused("no")
        assert await handle.handle.result() == {"reason": "no", "ok": False}
        assert onboarding.outcome_name({"reason": "no", "ok": False}) == "refused"


async def test_a_start_with_a_message() -> None:
    """The run is started with it, or gets it."""
    async with FlowTest(app) as t:
        approve = onboarding.signals["approve"]
        data = Input("7")
        handle = await signal_with_start_contract(
            t.client, onboarding, data, approve, Approval("x")
        )
        assert await handle.result() == Created("x")


async def test_children() -> None:
    """A neighbour's flow gets the outcome typed, and talks to the run that it started."""
    async with FlowTest(app, neighbours) as t:
        assert await (await t.start(parent, "1", "refused")).result() == "no"
        assert await (await t.start(patron, "2")).result() == ["iprofile-org-2", True, True]
        assert await (await t.start(parent, "2", "")).result() == "patron"


async def test_an_id_that_cannot_be_is_a_failure_of_the_flow() -> None:
    """Not retried, not parked: the flow fails with the type, unless it catches it."""
    async with FlowTest(app, neighbours) as t:
        run = await t.start(parent, "", "")
        with pytest.raises(FlowError, match="field 'code' is empty") as caught:
            await run.result()
        assert caught.value.type == INVALID_WORKFLOW_ID
        with pytest.raises(Failure, match="field 'code' is blank"):
            await start_contract(t.client, onboarding, Input(" "))


async def test_an_input_that_does_not_fit_is_refused_at_the_call() -> None:
    """Before an engine hears of it, with the path."""
    async with FlowTest(app) as t:
        wrong: Any = Input("7", path=3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"input\.path: expected str, got int"):
            await start_contract(t.client, onboarding, wrong)
        handle = contract_handle(t.client, onboarding, "x")
        with pytest.raises(TypeError, match=r"approve.*: value\.by: expected str, got int"):
            await handle.signal(onboarding.signals["approve"], Approval(3))  # type: ignore[arg-type]


async def test_an_older_starters_input_is_a_final_failure_that_names_the_path() -> None:
    """A starter that knows nothing of the contract's types starts by the plain target."""
    async with FlowTest(app) as t:
        target = Target("iprofile", "organizationOnboarding")
        run = await t.client.start(target, {"kode": "7"}, id="x")
        with pytest.raises(FlowError, match=r"missing required field code") as caught:
            await run.result()
        assert caught.value.type == "DecodeError"
        run = await t.client.start(target, {"code": 7}, id="y")
        with pytest.raises(FlowError, match=r"data\.code: Expected str, got int"):
            await run.result()


async def test_a_foreign_message_is_a_final_failure_that_names_the_path() -> None:
    """It is read as the contract's type, whatever the sender thought."""
    async with FlowTest(app) as t:
        handle = await start_contract(t.client, onboarding, Input("7"))
        await handle.handle.signal("approve", {"by": 3})
        with pytest.raises(FlowError, match=r"signal 'approve' of contract .*by: Expected str"):
            await handle.result()


def other(*flows: Any) -> AppDefinition:
    return AppDefinition("iprofile", flows=list(flows))


async def test_a_foreign_outcome_is_a_final_failure_of_its_flow() -> None:
    """The flow that returns it fails, and says what each outcome missed."""

    @implements(onboarding)
    async def strange(ctx: Context, data: Input) -> Any:
        return {"organization_id": 3}

    async with FlowTest(other(strange)) as t:
        handle = await start_contract(t.client, onboarding, Input("7"))
        with pytest.raises(FlowError) as caught:
            await handle.result()
        assert caught.value.type == "EncodeError"
        assert str(caught.value) == (
            "outcome of contract 'organizationOnboarding': the value fits no outcome: "
            "created: expected Created, got dict; refused: expected Refused, got dict"
        )


async def test_a_foreign_outcome_is_refused_by_its_reader() -> None:
    """A worker that keeps to no contract is found out; each outcome says what it missed."""

    async def stranger(ctx: Context, data: Any) -> Any:
        return {"ok": False, "organization_id": "7"}

    foreign = AppDefinition("iprofile", flows={"organizationOnboarding": stranger})
    async with FlowTest(foreign, neighbours) as t:
        handle = await start_contract(t.client, onboarding, Input("7"))
        with pytest.raises(Failure) as caught:
            await handle.result()
        assert (caught.value.type, caught.value.non_retryable) == ("DecodeError", True)
        assert set(caught.value.details) == {"created", "refused"}
        assert "created.ok: Invalid enum value False" in str(caught.value)
        assert "refused: Object missing required field reason" in str(caught.value)
        run = await t.start(parent, "8", "")
        with pytest.raises(FlowError, match="the value fits no outcome") as failed:
            await run.result()
        assert failed.value.type == "DecodeError"


class Boxed(TypedDict):
    left: int


class Bag(TypedDict):
    right: int


async def test_a_value_that_fits_two_outcomes_is_none() -> None:
    """Both are named, on the side that writes and on the side that reads."""
    both: WorkflowContract[Input, Boxed | Bag] = define_workflow_contract(
        name="both",
        task_queue="iprofile",
        workflow_id="b-{code}",
        input=Input,
        outcomes={"boxed": Boxed, "bag": Bag},
    )
    with pytest.raises(Failure, match="the value fits 'boxed' and 'bag' alike"):
        both.decode_outcome({"left": 1, "right": 2})
    assert both.encode_outcome({"left": 1}) == ("boxed", {"left": 1})
    assert both.decode_outcome({"right": 1}) == {"right": 1}


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["provisioning"], "'provisioning' cannot follow the start (next: 'checking')"),
        (
            ["checking", "created"],
            "'created' cannot follow 'checking' (next: 'provisioning', 'refused')",
        ),
        (["checking", "refused", "checking"], "'checking' cannot follow 'refused' (next: nothing)"),
        (
            ["cheking"],
            (
                "no state 'cheking' (states: 'checking', 'provisioning', 'created', 'refused'); "
                "did you mean 'checking'?"
            ),
        ),
        ([7], "no state 7 (states: 'checking', 'provisioning', 'created', 'refused')"),
        (["checking"], "'created' cannot follow 'checking' (next: 'provisioning', 'refused')"),
    ],
)
async def test_a_step_off_the_states_is_a_final_failure(steps: list[Any], message: str) -> None:
    """It names the state, where the flow stood, and what may follow; the outcome is a step too."""

    @implements(onboarding)
    async def wanderer(ctx: Context, data: Input) -> Created:
        for step in steps:
            await ctx.set_state("state", step)
        return Created("x")

    async with FlowTest(other(wanderer)) as t:
        handle = await start_contract(t.client, onboarding, Input("7"))
        with pytest.raises(FlowError) as caught:
            await handle.result()
        assert caught.value.type == INVALID_TRANSITION
        assert str(caught.value) == f"contract 'organizationOnboarding': state: {message}"


async def test_steps_on_the_states() -> None:
    """An outcome may be told as a state; a flow that tells none may end in any outcome."""

    @implements(onboarding)
    async def walker(ctx: Context, data: Input) -> Created:
        for step in ("checking", "provisioning", "created") if data.path else ():
            await ctx.set_state("state", step)
        return Created("x")

    async with FlowTest(other(walker)) as t:
        for code, path in (("1", "all"), ("2", "")):
            handle = await start_contract(t.client, onboarding, Input(code, path))
            assert await handle.result() == Created("x")
            assert await handle.state() == ("created" if path else None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda ctx: ctx.recv("aprove", 1),
            "no signal 'aprove' (signals: 'approve', 'remark'); did you mean 'approve'?",
        ),
        (
            lambda ctx: ctx.set_state("statu", 1),
            "no query 'statu' (keys: 'status'); did you mean 'status'?",
        ),
        (
            lambda ctx: ctx.set_state("status", {"a": "b"}),
            "query 'status' of contract 'organizationOnboarding': value['a']: expected int",
        ),
    ],
)
async def test_what_the_contract_does_not_have_fails_the_flow(call: Any, message: str) -> None:
    """A topic, a key or a value that neighbours do not know of."""

    @implements(onboarding)
    async def loose(ctx: Context, data: Input) -> Created:
        await call(ctx)
        return Created("x")

    async with FlowTest(other(loose)) as t:
        handle = await start_contract(t.client, onboarding, Input("7"))
        with pytest.raises(FlowError) as caught:
            await handle.result()
        assert message in str(caught.value)


async def test_the_plain_context_is_kept_to_the_contract_too() -> None:
    """By name, a message is read as the contract's type, or as the caller's on top."""

    @implements(onboarding)
    async def plain(ctx: Context, data: Input) -> Created:
        typed = await ctx.recv("approve")
        raw = await ctx.recv("approve", result_type=dict[str, str])
        late = await ctx.recv("remark", 1, "late")
        assert isinstance(ctx, ContractContext)
        return Created(f"{typed!r} {raw!r} {late}")

    async with FlowTest(other(plain)) as t:
        handle = await start_contract(t.client, onboarding, Input("7"))
        for by in ("a", "b"):
            await handle.signal(onboarding.signals["approve"], Approval(by))
        assert await handle.result() == Created("Approval(by='a') {'by': 'b'} late")


async def test_a_message_of_another_contract_is_refused() -> None:
    """A message is addressed by the contract that it belongs to."""
    elsewhere = define_workflow_contract(
        name="elsewhere",
        task_queue="iprofile",
        workflow_id="e-{code}",
        input=Input,
        outcomes={"created": Created},
        signals={"approve": Message("a manager approved", Approval)},
    )
    async with FlowTest(app) as t:
        handle = contract_handle(t.client, onboarding, "x")
        with pytest.raises(ValueError, match="signal 'approve' is of contract 'elsewhere'"):
            await handle.signal(elsewhere.signals["approve"], Approval("x"))
        with pytest.raises(ValueError, match=r'address a signal as contract.signals\["..."\]'):
            await handle.signal(Message("unbound", str), "x")
        with pytest.raises(ValueError, match="no query 'remark'"):
            await handle.query(onboarding.signals["remark"])


async def test_a_replay_walks_the_same_states() -> None:
    """A crash at any record changes nothing."""
    async with FlowTest(app, crash_after=1) as t:
        handle = await start_contract(t.client, onboarding, Input("7"))
        await handle.signal(onboarding.signals["approve"], Approval("me"))
        assert await handle.result() == Created("me")
