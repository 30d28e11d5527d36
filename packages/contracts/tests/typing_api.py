"""What the public names promise to a type checker. Checked, never run.

Each `assert_type` holds, and each line with an ignore is refused: an ignore that nothing needs
is an error in both checkers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, assert_never, assert_type

import msgspec

from iworkflow.contracts import (
    ContractChild,
    ContractContext,
    ContractHandle,
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
    workflow_id,
)
from iworkflow.core import AppDefinition, Client, Context, FlowDescription


class Onboarding(msgspec.Struct):
    code: str


@dataclass
class Created:
    ok: Literal[True]
    organization_id: str


@dataclass
class Refused:
    ok: Literal[False]
    reason: str


class Approval(msgspec.Struct):
    by: str


class Signals(TypedDict):
    approve: Message[Approval]
    remark: Message[str]


class Queries(TypedDict):
    status: Message[dict[str, int]]


onboarding: WorkflowContract[Onboarding, Created | Refused, Signals, Queries] = (
    define_workflow_contract(
        name="organizationOnboarding",
        task_queue="iprofile",
        workflow_id="iprofile-org-{code}",
        input=Onboarding,
        outcomes={"created": Created, "refused": Refused},
        states={"checking": State(next=["created", "refused"])},
        signals={
            "approve": Message("a manager approved", Approval),
            "remark": Message("said", str),
        },
        queries={"status": Message("where it stands", dict[str, int])},
    )
)


class Sent(TypedDict):
    kind: Literal["sent"]
    at: float


class Dropped(TypedDict):
    kind: Literal["dropped"]
    why: str


letter: WorkflowContract[Onboarding, Sent | Dropped] = define_workflow_contract(
    name="letter",
    task_queue="ipost",
    workflow_id="letter-{code}",
    input=Onboarding,
    outcomes={"sent": Sent, "dropped": Dropped},
    signals={"hurry": Message("send it now", int)},
)

# Without an annotation one outcome is inferred.
single = define_workflow_contract(
    name="single",
    task_queue="ipost",
    workflow_id="x-{code}",
    input=Onboarding,
    outcomes={"created": Created},
)


def declared() -> None:
    assert_type(onboarding.signals["approve"], Message[Approval])
    assert_type(onboarding.queries["status"], Message[dict[str, int]])
    assert_type(letter.signals, Mapping[str, Message[Any]])
    assert_type(onboarding.workflow_id(Onboarding("a")), str)
    assert_type(workflow_id(onboarding, Onboarding("a")), str)
    onboarding.signals["aprove"]  # type: ignore[typeddict-item]  # pyright: ignore[reportGeneralTypeIssues]
    onboarding.workflow_id("a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    workflow_id(onboarding, Created(True, "x"))  # type: ignore[misc]  # pyright: ignore[reportArgumentType]


async def outside(client: Client, data: Onboarding) -> None:
    handle = await start_contract(client, onboarding, data, priority=1, timeout=timedelta(days=1))
    assert_type(handle, ContractHandle[Created | Refused])
    outcome = await handle.result(timeout=3)
    match outcome:
        case Created():
            assert_type(outcome.organization_id, str)
        case Refused():
            assert_type(outcome.reason, str)
        case _:
            assert_never(outcome)
    await handle.signal(onboarding.signals["approve"], Approval("me"), message_id="1")
    assert_type(await handle.query(onboarding.queries["status"]), dict[str, int] | None)
    assert_type(await handle.state(), str | None)
    assert_type(await handle.describe(), FlowDescription)
    assert_type(contract_handle(client, onboarding, data), ContractHandle[Created | Refused])
    both = await signal_with_start_contract(
        client, onboarding, data, onboarding.signals["remark"], "now"
    )
    assert_type(both, ContractHandle[Created | Refused])
    assert_type(await start_contract(client, single, data), ContractHandle[Created])
    await handle.signal(onboarding.signals["approve"], "me")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await handle.signal("approve", Approval("me"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await start_contract(client, onboarding, "a")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await start_contract(client, onboarding, data, id="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await signal_with_start_contract(client, onboarding, data, onboarding.signals["remark"], 1)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]


async def typed_dicts(client: Client, data: Onboarding) -> None:
    outcome = await (await start_contract(client, letter, data)).result()
    if outcome["kind"] == "sent":
        assert_type(outcome["at"], float)
    else:
        assert_type(outcome["why"], str)


async def inside(ctx: Context, data: Onboarding) -> None:
    outcome = await child_contract(ctx, onboarding, data, on_existing="reject")
    match outcome:
        case Created():
            assert_type(outcome, Created)
        case Refused():
            assert_type(outcome, Refused)
    child = await start_child_contract(ctx, onboarding, data, timeout=9)
    assert_type(child, ContractChild[Created | Refused])
    assert_type(await child.result(), Created | Refused)
    await child.signal(onboarding.signals["remark"], "hurry")
    await child.signal(onboarding.signals["remark"], 1)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await child_contract(ctx, onboarding, {"code": "a"})  # type: ignore[misc]  # pyright: ignore[reportArgumentType]


async def typed(ctx: ContractContext, data: Onboarding) -> Created | Refused:
    assert_type(await ctx.recv(onboarding.signals["approve"], 3), Approval | None)
    assert_type(await ctx.recv("remark", result_type=str), str | None)
    await ctx.set_state("state", "checking")
    await ctx.set_state(onboarding.queries["status"], {"done": 1})
    await ctx.set_state(onboarding.queries["status"], "done")  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType]
    return Created(True, data.code)


async def plain(ctx: Context, data: Onboarding) -> Created:
    return Created(True, data.code)


async def foreign(ctx: Context, data: Onboarding) -> str:
    return data.code


async def other(ctx: Context, data: str) -> Created:
    return Created(True, data)


app = AppDefinition("iprofile", flows=[implements(onboarding)(typed)])
also = AppDefinition("iprofile", flows=[implements(onboarding)(plain)])
implements(onboarding)(foreign)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
implements(onboarding)(other)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
define_workflow_contract(
    name="x",
    task_queue="app",
    workflow_id="x",
    input=Onboarding,
    outcomes={"created": Created},
    states={"checking": ["created"]},  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
)
