"""Steps: their attempts, retries, slots and heartbeats, the same on every engine."""

from iworkflow.core.steps.attempt import Returned, run_attempt
from iworkflow.core.steps.book import AttemptBook, AttemptState
from iworkflow.core.steps.clock import Clock, WallClock
from iworkflow.core.steps.describe import StepError, describe_exception
from iworkflow.core.steps.retry import GiveUp, Retry, decide, out_of_time
from iworkflow.core.steps.runner import Attempted, StepRunner
from iworkflow.core.steps.scope import (
    StepInfo,
    StepScope,
    heartbeat,
    last_heartbeat,
    step_attempt,
    step_info,
    step_scope,
    step_signal,
)
from iworkflow.core.steps.signals import StepSignal
from iworkflow.core.steps.slots import Slot, Slots
from iworkflow.core.steps.threads import StepThreads

__all__ = [
    "AttemptBook",
    "AttemptState",
    "Attempted",
    "Clock",
    "GiveUp",
    "Retry",
    "Returned",
    "Slot",
    "Slots",
    "StepError",
    "StepInfo",
    "StepRunner",
    "StepScope",
    "StepSignal",
    "StepThreads",
    "WallClock",
    "decide",
    "describe_exception",
    "heartbeat",
    "last_heartbeat",
    "out_of_time",
    "run_attempt",
    "step_attempt",
    "step_info",
    "step_scope",
    "step_signal",
]
