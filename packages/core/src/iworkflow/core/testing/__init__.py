"""Test flows without a server: virtual time, replaced steps, chosen messages, crashes.

See `FlowTest` for a single run and `sweep` for a crash at every point of a flow's life.
"""

from iworkflow.core.testing.fleet import Interrupted
from iworkflow.core.testing.kit import FlowTest
from iworkflow.core.testing.patience import Stuck
from iworkflow.core.testing.stage import Point, RandomSchedule, Schedule
from iworkflow.core.testing.sweep import Difference, SweepReport, sweep
from iworkflow.core.testing.trace import (
    Crashed,
    Delivered,
    Ended,
    Event,
    Executed,
    Recorded,
    Trace,
)

__all__ = [
    "Crashed",
    "Delivered",
    "Difference",
    "Ended",
    "Event",
    "Executed",
    "FlowTest",
    "Interrupted",
    "Point",
    "RandomSchedule",
    "Recorded",
    "Schedule",
    "Stuck",
    "SweepReport",
    "Trace",
    "sweep",
]
