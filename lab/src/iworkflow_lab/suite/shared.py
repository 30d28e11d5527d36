"""An arena that many scenarios share: starting a worker costs more than most of them."""

from __future__ import annotations

from iworkflow_lab.engines.base import Arena, Worker


class Shared:
    """An arena with one worker for each app, which the scenarios use one after another.

    A scenario may kill its app's worker if it leaves no run behind that another one looks at.
    """

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self._up: dict[str, Worker] = {}

    async def arena_of(self, app: str) -> Arena:
        """Return the arena, with a worker of `module:attribute` up."""
        if app not in self._up:
            self._up[app] = await self.arena.worker(app)
        return self.arena

    async def kill(self, app: str) -> None:
        """Kill the app's worker; `arena_of` starts another."""
        await self._up.pop(app).kill()

    async def stop(self, app: str) -> None:
        """Stop the app's worker, if it is up, in an orderly way; `arena_of` starts another."""
        if app in self._up:
            await self._up.pop(app).stop()
