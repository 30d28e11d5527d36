"""`iworkflow dev`: run the engines' development servers until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import AsyncExitStack
from typing import Any

from iworkflow.core.cli.problems import Problem, pick_engine
from iworkflow.core.cli.signals import on_stop
from iworkflow.core.engines import DevEngine, installed

_IF_ASKED = ("temporal",)


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "dev",
        parents=[common],
        help="run a server for development",
        description="Run the development servers of the engines installed, or of --engine, until "
        "Ctrl-C; a Temporal server only if asked, or if there is no other. Prints where they are "
        "and what to set.",
    )
    parser.add_argument(
        "--temporal",
        dest="engine",
        action="store_const",
        const="temporal",
        help="the same as --engine temporal",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the servers; return the exit code."""
    asyncio.run(_serve(_servers(args.engine)))
    return 0


async def _serve(engines: list[DevEngine]) -> None:
    stop = asyncio.Event()
    with on_stop(stop.set):
        async with AsyncExitStack() as servers:
            for engine in engines:
                print(await servers.enter_async_context(engine.dev()), flush=True)
            print("iworkflow dev: running; Ctrl-C stops it", file=sys.stderr, flush=True)
            await stop.wait()


def _servers(name: str | None) -> list[DevEngine]:
    if name:
        chosen = pick_engine(name)
        if not isinstance(chosen, DevEngine):
            raise Problem(f"engine {name!r} has no server for development")
        return [chosen]
    loaded = [engine for engine in map(_load, installed()) if isinstance(engine, DevEngine)]
    found = [engine for engine in loaded if engine.name not in _IF_ASKED] or loaded
    if not found:
        names = ", ".join(map(repr, installed()))
        raise Problem(
            f"no engine with a server for development (installed: {names}); run "
            '"pip install iworkflow-dbos[embedded]"'
        )
    return found


def _load(name: str) -> object:
    """Load an engine; one that cannot be loaded is told and left out."""
    try:
        return pick_engine(name)
    except Problem as problem:
        print(f"iworkflow dev: {problem}", file=sys.stderr)
        return None
