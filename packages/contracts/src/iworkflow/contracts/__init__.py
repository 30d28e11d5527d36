"""Typed process contracts: the owner of a process declares it, neighbours import it.

Importing it checks that core is of the same version; it connects to nothing.
"""

from __future__ import annotations

from iworkflow.core.lockstep import require_core

require_core("iworkflow-contracts")

from iworkflow.contracts.calls import (  # noqa: E402  # a foreign core is refused first
    child_contract,
    contract_handle,
    signal_with_start_contract,
    start_child_contract,
    start_contract,
    workflow_id,
)
from iworkflow.contracts.contract import (  # noqa: E402
    WorkflowContract,
    define_workflow_contract,
)
from iworkflow.contracts.errors import (  # noqa: E402
    INVALID_TRANSITION,
    INVALID_WORKFLOW_ID,
    ContractError,
)
from iworkflow.contracts.handles import ContractChild, ContractHandle  # noqa: E402
from iworkflow.contracts.implementing import ContractContext, implements  # noqa: E402
from iworkflow.contracts.parts import Message, State  # noqa: E402

__all__ = [
    "INVALID_TRANSITION",
    "INVALID_WORKFLOW_ID",
    "ContractChild",
    "ContractContext",
    "ContractError",
    "ContractHandle",
    "Message",
    "State",
    "WorkflowContract",
    "child_contract",
    "contract_handle",
    "define_workflow_contract",
    "implements",
    "signal_with_start_contract",
    "start_child_contract",
    "start_contract",
    "workflow_id",
]
