"""The memory engine: the reference of the contract, and what flows are tested with.

Runs, messages and state live in a `MemoryStore` of this process, flows run in the same driver
as on every engine, and time is virtual unless the store is given a `RealClock`.
"""

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

    def client(self, *, store: MemoryStore | None = None, **settings: int) -> MemoryClient:
        """Build a client over the store, by default the one of this process."""
        return MemoryClient(store, **settings)

    def runtime(self, *, store: MemoryStore | None = None, **settings: int) -> MemoryRuntime:
        """Build a runtime over the store, by default the one of this process."""
        return MemoryRuntime(store, **settings)


engine = _MemoryEngine()
