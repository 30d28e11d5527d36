"""An arena that many scenarios share: starting a worker costs more than most of them."""

from __future__ import annotations

from iworkflow_lab.engines.base import Arena


class Shared:
    """An arena for scenarios that harm no worker; each app gets one worker for all of them."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self._up: set[str] = set()

    async def arena_of(self, app: str) -> Arena:
        """Return the arena, with a worker of `module:attribute` up."""
        if app not in self._up:
            self._up.add(app)
            await self.arena.worker(app)
        return self.arena
