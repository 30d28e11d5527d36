"""The port of iworkflow: flows in plain asyncio, one definition for several engines.

Importing it imports no third-party package, connects to nothing and starts no thread.
"""

from iworkflow.core.child import ChildHandle
from iworkflow.core.client import Client, Handle
from iworkflow.core.context import Context
from iworkflow.core.definition import AppDefinition, Flow, Target
from iworkflow.core.engines import Engine, engine
from iworkflow.core.errors import Failure, FlowError, Reason, non_retryable
from iworkflow.core.flow.waiting import as_completed, wait
from iworkflow.core.options import ChildOptions, Duration, StartOptions, StepOptions
from iworkflow.core.port import FlowDescription, Status
from iworkflow.core.runtime import Runtime
from iworkflow.core.steps import (
    StepInfo,
    StepSignal,
    heartbeat,
    last_heartbeat,
    step_attempt,
    step_info,
    step_signal,
)

__all__ = [
    "AppDefinition",
    "ChildHandle",
    "ChildOptions",
    "Client",
    "Context",
    "Duration",
    "Engine",
    "Failure",
    "Flow",
    "FlowDescription",
    "FlowError",
    "Handle",
    "Reason",
    "Runtime",
    "StartOptions",
    "Status",
    "StepInfo",
    "StepOptions",
    "StepSignal",
    "Target",
    "as_completed",
    "engine",
    "heartbeat",
    "last_heartbeat",
    "non_retryable",
    "step_attempt",
    "step_info",
    "step_signal",
    "wait",
]
