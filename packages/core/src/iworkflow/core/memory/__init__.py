"""The memory engine: the reference of the contract, and what flows are tested with.

Runs, messages and state live in a `MemoryStore` of this process, flows run in the same driver
as on every engine, and time is virtual unless the store is given a `RealClock`.
"""

from typing import Any

from iworkflow.core.memory.client import MemoryClient
from iworkflow.core.memory.clock import RealClock, VirtualClock
from iworkflow.core.memory.store import MemoryStore, default_store
from iworkflow.core.memory.worker import MemoryRuntime

__all__ = [
    "MemoryClient",
    "MemoryRuntime",
    "MemoryStore",
    "RealClock",
    "VirtualClock",
    "default_store",
    "engine",
]


class _MemoryEngine:
    """The engine as discovery finds it."""

    name = "memory"

    def client(self, **settings: Any) -> MemoryClient:
        """Make a client; `settings` are those of `MemoryClient`."""
        return MemoryClient(**settings)

    def runtime(self, **settings: Any) -> MemoryRuntime:
        """Make a runtime; `settings` are those of `MemoryRuntime`."""
        return MemoryRuntime(**settings)


engine = _MemoryEngine()
