"""Start a contract's process, from outside and as a child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from iworkflow.contracts.contract import WorkflowContract
from iworkflow.contracts.handles import ContractChild, ContractHandle, encode_signal
from iworkflow.contracts.parts import Message
from iworkflow.core.client import Client
from iworkflow.core.codec import ANY
from iworkflow.core.context import Context
from iworkflow.core.options import ChildOptions, Duration, StartOptions

if TYPE_CHECKING:
    from typing import Unpack

InT = TypeVar("InT")
OutT = TypeVar("OutT")
T = TypeVar("T")


def workflow_id(contract: WorkflowContract[InT, Any, Any, Any], data: InT) -> str:
    """Build the id of the run for an input; see `WorkflowContract.workflow_id`."""
    return contract.workflow_id(data)


async def start_contract(
    client: Client,
    contract: WorkflowContract[InT, OutT, Any, Any],
    data: InT,
    /,
    **options: Unpack[StartOptions],
) -> ContractHandle[OutT]:
    """Start the process for an input, or attach to the run that this input has already.

    Args:
        client: a client of any engine.
        contract: what to start.
        data: its input; the id follows from it.
        options: see `StartOptions`.

    Raises:
        Failure: type `INVALID_WORKFLOW_ID`: the input gives no id; `PayloadTooLarge`.
        FlowError: `already-started`: under `on_existing="reject"`, or the id is another flow's.
        TypeError: the input does not fit; names the path.
    """
    id = contract.workflow_id(data)
    handle = await client.start(contract.target, data, id=id, **options)
    return ContractHandle(contract, handle)


async def signal_with_start_contract(
    client: Client,
    contract: WorkflowContract[InT, OutT, Any, Any],
    data: InT,
    message: Message[T],
    value: T,
    /,
    *,
    message_id: str | None = None,
    timeout: Duration | None = None,
    priority: int | None = None,
) -> ContractHandle[OutT]:
    """Start the process with a message, or send the message to the run that there is.

    Raises:
        Failure: type `INVALID_WORKFLOW_ID`: the input gives no id; `PayloadTooLarge`.
        FlowError: `already-started`: the run is finished, or of another flow.
        ValueError, TypeError: the message or a value does not fit.
    """
    topic, encoded = encode_signal(contract, message, value)
    handle = await client.signal_with_start(
        contract.target,
        data,
        topic=topic,
        value=encoded,
        id=contract.workflow_id(data),
        message_id=message_id,
        timeout=timeout,
        priority=priority,
    )
    return ContractHandle(contract, handle)


def contract_handle(
    client: Client, contract: WorkflowContract[InT, OutT, Any, Any], data: InT | str, /
) -> ContractHandle[OutT]:
    """Return a handle to a run that need not exist, by its input or its id; asks nothing.

    Raises:
        Failure: type `INVALID_WORKFLOW_ID`: the input gives no id.
        ValueError: the id is not valid.
    """
    id = data if isinstance(data, str) else contract.workflow_id(data)
    return ContractHandle(contract, client.handle(id))


async def child_contract(
    ctx: Context,
    contract: WorkflowContract[InT, OutT, Any, Any],
    data: InT,
    /,
    **options: Unpack[ChildOptions],
) -> OutT:
    """Run the process as a child, and return its outcome; a run of the input is attached to.

    Args:
        ctx: the context of the flow.
        contract: what to run.
        data: its input; the id follows from it.
        options: see `ChildOptions`.

    Raises:
        Failure: type `INVALID_WORKFLOW_ID`: the input gives no id; `DecodeError`: the child came
            to what is no outcome of the contract. Both are final: uncaught, they fail the flow.
        FlowError: as `Context.child`.
        TypeError: the input does not fit; names the path.
    """
    id = contract.workflow_id(data)
    value = await ctx.child(contract.target, data, id=id, result_type=ANY, **options)
    return contract.decode_outcome(value)


async def start_child_contract(
    ctx: Context,
    contract: WorkflowContract[InT, OutT, Any, Any],
    data: InT,
    /,
    **options: Unpack[ChildOptions],
) -> ContractChild[OutT]:
    """Start the process as a child, and return once its start is durable.

    Like `child_contract`, but a taken id is refused unless `on_existing="attach"`.
    """
    id = contract.workflow_id(data)
    child = await ctx.start_child(contract.target, data, id=id, **options)
    return ContractChild(contract, ctx, child)
