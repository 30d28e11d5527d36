"""The one workflow class that hosts all flows: core's driver runs in it, in Temporal's sandbox.

For each run the sandbox imports the class anew, as `HostedFlows` of this module. That name is
made at the moment: `sandbox.load` imports the modules of the flows then and there, under the
sandbox, and the class gets the app over those copies. Everything else passes through.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, ClassVar

from temporalio import workflow
from temporalio.common import RawValue

from iworkflow.core.definition import AppDefinition
from iworkflow.core.flow.driver import DeadlinePassed, Misplaced, drive
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.options import DEFAULT_PRIORITY
from iworkflow.core.port import RunInfo
from iworkflow.temporal import parking, runs, sandbox
from iworkflow.temporal.errors import FailedError, ParkedError
from iworkflow.temporal.host import TemporalHost
from iworkflow.temporal.messages import Inbox, read_signal
from iworkflow.temporal.names import BIRTH, STATE
from iworkflow.temporal.settings import Tuning

_MARKER = f"{BIRTH}."
HOSTED = "HostedFlows"
"""The name under which the sandbox imports the class."""

log = logging.getLogger("iworkflow.temporal")


class HostedFlows:
    """One run of a flow."""

    app: ClassVar[AppDefinition]
    tuning: ClassVar[Tuning]
    began: ClassVar[float]
    ledger: ClassVar[parking.Ledger]

    def __init__(self) -> None:
        self._inbox = Inbox()
        self._host: TemporalHost | None = None

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> object:
        """Run the flow to its end. The workflow's type is the flow's name."""
        info = self._info(_values(args))
        asked = self.ledger.open(info.workflow_id, info.run_id)
        host = self._host = TemporalHost(info, self.tuning, self._inbox, asked)
        try:
            outcome = await drive(
                host, self.app, max_payload=self.tuning.max_payload, explain=self._failed
            )
            asked.ended = True
        except ParkedError as why:
            self.ledger.news.tell(log.error, info.run_id, str(why))
            raise
        except Misplaced as why:
            self.ledger.news.tell(log.warning, info.run_id, str(why))
            raise
        except DeadlinePassed:
            # The server ends the run; until it has, nothing may be recorded.
            await asyncio.get_running_loop().create_future()
            raise
        if outcome.error is not None:
            await host.ending(outcome.error.to_json())
            raise FailedError(outcome.error)
        await host.ending(outcome.value)
        return outcome.value

    @workflow.signal(dynamic=True)
    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """Take a message in."""
        self._inbox.put(*read_signal(name, _values(args)))

    @workflow.query(dynamic=True)
    def state(self, name: str, args: Sequence[RawValue]) -> object:
        """Answer the last value of a key: `iwf.state` with the key, or the key as the query."""
        key = _values(args)[0] if name == STATE else name
        return None if self._host is None else self._host.state.get(key)

    def _failed(self, error: BaseException) -> BaseException:
        """Begin nothing more, and say what the sandbox may have to do with the error."""
        if self._host is not None:
            self._host.failed()
        return sandbox.explained(error, {flow.fn.__module__ for flow in self.app.flows.values()})

    def _info(self, args: Sequence[JsonValue]) -> RunInfo:
        info = workflow.info()
        return RunInfo(
            workflow_id=info.workflow_id,
            run_id=info.run_id,
            app=self.app.app,
            flow=info.workflow_type,
            args=args,
            started_at=info.workflow_start_time,
            priority=info.priority.priority_key or DEFAULT_PRIORITY,
            parent_id=None if info.parent is None else info.parent.workflow_id,
            deadline=runs.deadline_of(info.workflow_start_time, info.execution_timeout),
            patches=self._patches(),
            younger=workflow.time() > self.began,
        )

    def _patches(self) -> frozenset[str]:
        """Record the patches declared at the first dispatch, and read them at each later one.

        Each is a marker of Temporal's own for a change of code. It is set as a deprecated one, so
        that a run goes on under code that does not declare it any more.
        """
        markers = {id: _MARKER + id for id in sorted(self.app.patches)}
        for marker in markers.values():
            workflow.deprecate_patch(marker)
        declared = {id for id, marker in markers.items() if workflow.patched(marker)}
        known = self.ledger.patches(workflow.info().run_id)
        return frozenset(
            declared | {m.removeprefix(_MARKER) for m in known if m.startswith(_MARKER)}
        )


# Temporal looks for the methods by the name of the class; the module must not have that name, so
# that the sandbox asks `__getattr__` for it.
_Flows = HostedFlows
del HostedFlows


def define(hosted: sandbox.Hosted, app: AppDefinition) -> type:
    """Make the class for an app; in the sandbox, for its copy there."""
    members = {
        "__module__": __name__,
        "app": app,
        "tuning": hosted.tuning,
        "began": hosted.began,
        "ledger": hosted.ledger,
    }
    return workflow.defn(dynamic=True)(type(HOSTED, (_Flows,), members))


def __getattr__(name: str) -> Any:
    if name != HOSTED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    hosted = sandbox.loading()
    return define(hosted, sandbox.load(hosted))


def _values(args: Sequence[RawValue]) -> list[Any]:
    converter = workflow.payload_converter()
    return [converter.from_payload(arg.payload) for arg in args]
