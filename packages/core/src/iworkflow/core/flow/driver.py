"""The driver: it runs one dispatch of a run to its end, whatever the engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from iworkflow.core.codec import DEFAULT_MAX_PAYLOAD, check_size
from iworkflow.core.context import Context
from iworkflow.core.errors import non_retryable
from iworkflow.core.flow.parking import Parked
from iworkflow.core.flow.placement import Misplaced, check_placed
from iworkflow.core.flow.run import DeadlinePassed, FlowRun
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.port import Host, Outcome
from iworkflow.core.steps.describe import describe_exception

if TYPE_CHECKING:
    from iworkflow.core.definition import AppDefinition, FlowDefinition

__all__ = ["DeadlinePassed", "Misplaced", "drive"]

log = logging.getLogger("iworkflow.flow")


def _itself(error: BaseException) -> BaseException:
    return error


async def drive(
    host: Host,
    app: AppDefinition,
    *,
    max_payload: int = DEFAULT_MAX_PAYLOAD,
    explain: Callable[[BaseException], BaseException] = _itself,
) -> Outcome:
    """Run one dispatch of the host's run, and return the run's outcome.

    When it returns or raises, no code of the flow runs any more, and none ever will for this
    dispatch. A cancel is the engine's own (a stop, a terminate): it ends the dispatch and is
    raised again. A run that is parked stays in here until it is cancelled.

    Args:
        host: the engine's side of the run.
        app: the app whose flow it is.
        max_payload: how many bytes an encoded value may take.
        explain: gets what the flow raised and returns what the outcome is to tell.

    Raises:
        Misplaced: this worker must leave the run to another; no code of the flow ran.
        DeadlinePassed: the run's deadline has passed; the engine ends it as timed out.
        Exception: what the host raised; the flow saw nothing of it.
    """
    check_placed(app, host.info)
    run = FlowRun(host)
    flow = app.flow(host.info.flow)
    main = run.loop.create_task(_main(run, app, flow, max_payload), name="flow")
    try:
        await run.run(main)
        return _outcome(main, max_payload, explain)
    except Parked as parked:
        await run.leave()
        await _stay_parked(host, parked)
    finally:
        await run.leave()


async def _main(
    run: FlowRun, app: AppDefinition, flow: FlowDefinition, max_payload: int
) -> JsonValue:
    where = f"flow {flow.name!r}"
    args = flow.signature.decode_args(run.info.args, where=where)
    result = await flow.fn(Context(run, app, max_payload=max_payload), *args)
    try:
        encoded = flow.signature.encode_result(result, where=where)
    except TypeError as error:
        raise non_retryable(str(error), type="EncodeError") from error
    check_size(encoded, max_payload, where=f"outcome of {where}")
    return encoded


def _outcome(
    main: asyncio.Task[Any], max_payload: int, explain: Callable[[BaseException], BaseException]
) -> Outcome:
    if main.cancelled():
        error: BaseException = asyncio.CancelledError("the flow cancelled itself")
    elif (raised := main.exception()) is not None:
        error = explain(raised)
    else:
        return Outcome(value=main.result())
    return Outcome(error=describe_exception(error, max_payload=max_payload).error)


async def _stay_parked(host: Host, parked: Parked) -> NoReturn:
    why = f"flow {host.info.workflow_id!r} {parked}"
    host.parked(why)
    log.error(why)
    await asyncio.get_running_loop().create_future()
    raise AssertionError("a parked run was woken")
