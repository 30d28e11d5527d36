"""Steps that are no plain functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from iworkflow_lab.gates import free


class Meter:
    """Its instances are steps, and so are their methods."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    async def __call__(self, n: int) -> int:
        free("object")
        return n * self.factor

    async def method(self, n: int) -> int:
        free("method")
        return n * self.factor

    def sync_method(self, n: int) -> int:
        free("sync method")
        return n * self.factor

    @staticmethod
    async def static(n: int) -> int:
        free("static")
        return n * 10

    @classmethod
    async def of_class(cls, n: int) -> int:
        free("of class")
        return n * 10


class SyncMeter:
    """The same, called in a thread."""

    def __call__(self, n: int) -> int:
        free("sync object")
        return n * 10


async def scaled(factor: int, n: int) -> int:
    """For a partial."""
    free("partial")
    return n * factor


def sync_scaled(factor: int, n: int) -> int:
    """For a partial in a thread."""
    free("sync partial")
    return n * factor


def wrapped(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate with a plain function: nothing tells that it has to be awaited."""

    @functools.wraps(fn)
    def wrapper(*args: Any) -> Any:
        return fn(*args)

    return wrapper


def wrapped_async(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate with an `async def`."""

    @functools.wraps(fn)
    async def wrapper(*args: Any) -> Any:
        return await fn(*args)

    return wrapper


async def tenfold(n: int) -> int:
    """What is decorated."""
    free("decorated")
    return n * 10


def gives_coroutine(n: int) -> Any:
    """Return a coroutine instead of a value, from a thread."""
    free("coroutine")
    return scaled(10, n)


async def forgets_await(n: int) -> Any:
    """Return a coroutine that nobody awaited."""
    free("forgotten")
    return scaled(10, n)


SORTS: dict[str, Callable[..., Any]] = {
    "object": Meter(10),
    "method": Meter(10).method,
    "sync_method": Meter(10).sync_method,
    "static": Meter.static,
    "of_class": Meter.of_class,
    "sync_object": SyncMeter(),
    "partial": functools.partial(scaled, 10),
    "sync_partial": functools.partial(sync_scaled, 10),
    "wrapped": wrapped(tenfold),
    "wrapped_async": wrapped_async(tenfold),
    "twice_wrapped": wrapped(wrapped_async(tenfold)),
    "partial_method": functools.partial(Meter(10).method),
    "lambda": lambda: (free("lambda"), 70)[1],
    "gives_coroutine": gives_coroutine,
}
"""Each returns ten times its argument."""
