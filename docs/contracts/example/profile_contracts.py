"""The contracts of the team that owns profiles: all that its neighbours import.

It holds types and no flows, needs `iworkflow-contracts` alone, and is released as a package.
"""

from dataclasses import dataclass
from typing import Literal, TypedDict

from iworkflow.contracts import Message, State, WorkflowContract, define_workflow_contract


@dataclass(frozen=True)
class Onboarding:
    """An organisation to be taken in."""

    code: str
    linked_by: str


@dataclass(frozen=True)
class Created:
    ok: Literal[True]
    organization_id: str


@dataclass(frozen=True)
class Refused:
    ok: Literal[False]
    reason: str


@dataclass(frozen=True)
class Approval:
    by: str


class Signals(TypedDict):
    approve: Message[Approval]


class Queries(TypedDict):
    checks: Message[dict[str, bool]]


organization_onboarding: WorkflowContract[Onboarding, Created | Refused, Signals, Queries] = (
    define_workflow_contract(
        name="organizationOnboarding",
        task_queue="iprofile",
        workflow_id="iprofile-org-{code}",
        input=Onboarding,
        outcomes={"created": Created, "refused": Refused},
        states={
            "checking": State(["awaiting approval", "refused"], "the code is looked up"),
            "awaiting approval": State(["provisioning", "refused"], "a manager has a day"),
            "provisioning": State(["created"]),
        },
        signals={"approve": Message("a manager approved", Approval)},
        queries={"checks": Message("which checks were passed", dict[str, bool])},
        description="Takes an organisation in, once a manager has approved of it.",
    )
)
