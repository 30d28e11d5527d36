"""What is wrong with a contract, and what a call of one raises."""

from __future__ import annotations

from collections.abc import Sequence

from iworkflow.core.errors import Failure, non_retryable

INVALID_WORKFLOW_ID = "InvalidWorkflowId"
"""The type of the `Failure` of an input that gives no id."""

INVALID_TRANSITION = "InvalidTransition"
"""The type of the `Failure` of a flow that leaves the states of its contract."""

DECODE_ERROR = "DecodeError"
"""The type of the `Failure` of a value that the contract does not know; it is core's own."""

ENCODE_ERROR = "EncodeError"
"""The type of the `Failure` of a flow whose result is no outcome; it is core's own."""


class ContractError(ValueError):
    """A contract that contradicts itself, found where it is defined.

    Args:
        contract: the name of the contract.
        faults: what is wrong, each with the field that it is about.
    """

    def __init__(self, contract: str, faults: Sequence[str]) -> None:
        super().__init__("\n".join(f"contract {contract!r}: {fault}" for fault in faults))
        self.contract = contract
        self.faults = tuple(faults)

    def __reduce__(self) -> tuple[type[ContractError], tuple[str, tuple[str, ...]]]:
        return type(self), (self.contract, self.faults)


def invalid_id(contract: str, field: str, why: str) -> Failure:
    """Build the final failure of an input that gives no id."""
    return non_retryable(
        f"contract {contract!r}: workflow_id: field {field!r} {why}",
        type=INVALID_WORKFLOW_ID,
        details={"contract": contract, "field": field},
    )
