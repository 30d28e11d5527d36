"""Which runs a worker leaves to others.

While versions are being rolled out, a worker may be given a run of newer code: of a flow that it
does not know, or born with a patch that it does not declare. An id that is gone from the code for
good looks the same as one that is not there yet. What tells them apart is the worker's age: code
that was there before the run was born cannot have removed what the run was born with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iworkflow.core.definition import AppDefinition
    from iworkflow.core.port import RunInfo


WAITS = "it waits for a worker that"
"""What each text of `Misplaced` says."""


class Misplaced(Exception):
    """This worker must not run the run: it is left, as it is, for one that knows more."""


def check_placed(app: AppDefinition, info: RunInfo) -> None:
    """See that a worker of the app may run the run.

    Raises:
        Misplaced: another one has to; the text is for the log.
    """
    if info.flow not in app.flows:
        raise Misplaced(unknown_flow(app, info.flow, info.workflow_id))
    unknown = info.patches - app.patches
    if unknown and info.younger:
        raise Misplaced(_too_old(app, info.workflow_id, unknown))


def unknown_flow(app: AppDefinition, flow: str, workflow_id: str) -> str:
    """Tell of a run whose flow the app does not have."""
    return (
        f"no flow {flow!r} in app {app.app!r} (flows: {_listed(app.flows)}): "
        f"run {workflow_id!r} is left, {WAITS} knows it"
    )


def _too_old(app: AppDefinition, workflow_id: str, patches: Iterable[str]) -> str:
    return (
        f"run {workflow_id!r} was born with patch {_listed(patches)}, and the code of this worker "
        f"is older (patches: {_listed(app.patches)}): {WAITS} declares it, or was started later"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names))) or "none"
