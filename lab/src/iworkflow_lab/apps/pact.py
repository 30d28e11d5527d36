"""The contract between the app `contracted`, its owner, and the app `neighbours`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

import msgspec

from iworkflow.contracts import Message, State, WorkflowContract, define_workflow_contract


class Onboarding(msgspec.Struct, frozen=True):
    """What the process takes. `path` says what it is to do."""

    code: str
    path: str = "create"


@dataclass(frozen=True)
class Created:
    """The organisation is there."""

    organization_id: str
    ok: Literal[True] = True


@dataclass(frozen=True)
class Refused:
    """There is none."""

    reason: str
    ok: Literal[False] = False


class Approval(msgspec.Struct, frozen=True):
    """A word of a manager."""

    by: str


class Signals(TypedDict):
    """What neighbours may send."""

    approve: Message[Approval]


class Queries(TypedDict):
    """What they may ask."""

    status: Message[dict[str, int]]


onboarding: WorkflowContract[Onboarding, Created | Refused, Signals, Queries] = (
    define_workflow_contract(
        name="organizationOnboarding",
        task_queue="contracted",
        workflow_id="org-{code}",
        input=Onboarding,
        outcomes={"created": Created, "refused": Refused},
        states={
            "checking": State(next=["provisioning", "refused"]),
            "provisioning": State(next=["created"]),
        },
        signals={"approve": Message("a manager approved", Approval)},
        queries={"status": Message("how far it is", dict[str, int])},
    )
)
