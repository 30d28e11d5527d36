"""What scenarios wait for."""

from __future__ import annotations

from typing import Any

from iworkflow.core import Handle
from iworkflow_lab.engines.base import Arena
from iworkflow_lab.until import until


async def held(arena: Arena, run: str, *keys: str, seconds: float = 30) -> None:
    """Wait until steps of these keys are in flight."""

    def there() -> bool:
        return set(keys) <= {effect.key for effect in arena.log.in_flight(run)}

    await until(there, f"{run} holds {keys}", seconds=seconds)


async def ended(arena: Arena, run: str, key: str) -> None:
    """Let a step go and wait until it has ended."""
    arena.let_go(f"{run}.{key}")
    await until(
        lambda: any(e.what == "end" and e.key == key for e in arena.log.read(run)), f"{key} ends"
    )


async def shows(handle: Handle[Any], key: str, value: object) -> None:
    """Wait until the state of the key is the value."""

    async def reached() -> bool:
        return bool(await handle.query(key) == value)

    await until(reached, f"{handle.id} shows {key} = {value!r}")
