"""`iworkflow worker pkg.mod:app`: run a worker until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from typing import Any

from iworkflow.core.cli.leaving import end_leftovers
from iworkflow.core.cli.loading import load_app
from iworkflow.core.cli.problems import Problem, pick_engine
from iworkflow.core.cli.signals import on_stop
from iworkflow.core.definition import AppDefinition
from iworkflow.core.options import seconds
from iworkflow.core.runtime import DEFAULT_GRACE, Runtime


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "worker",
        parents=[common],
        help="run a worker of an app",
        description="Run a worker of an app until SIGINT or SIGTERM. Running steps may finish "
        "within the grace; a second signal ends the process at once.",
    )
    parser.add_argument("app", metavar="pkg.mod:app", help="the AppDefinition")
    parser.add_argument(
        "--grace",
        type=float,
        default=DEFAULT_GRACE,
        metavar="S",
        help="seconds for running steps to finish (default: %(default)g)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load the app, then work; return the exit code."""
    grace = _grace(args.grace)
    app = load_app(args.app)
    engine = pick_engine(args.engine)
    _log(logging.DEBUG if args.verbose else logging.INFO)
    asyncio.run(_work(engine.runtime(), app, engine.name, grace))
    return 0


def _grace(value: float) -> float:
    try:
        return seconds("grace", value, zero=True)
    except ValueError as error:
        raise Problem(str(error)) from error


async def _work(runtime: Runtime, app: AppDefinition, engine: str, grace: float) -> None:
    stops: list[asyncio.Task[None]] = []

    def stop() -> None:
        _say(f"stopping; running steps have {grace:g} s, a second signal ends at once")
        stops.append(asyncio.create_task(runtime.stop(grace)))

    with on_stop(stop):
        try:
            await runtime.start(app)
            _say(_started(app, engine))
            await runtime.done()
        except RuntimeError:
            if not stops:
                raise
        finally:
            await asyncio.gather(*stops, return_exceptions=True)
            await runtime.stop(grace)
    await end_leftovers()


def _started(app: AppDefinition, engine: str) -> str:
    pools = ", ".join(f"{name}={size}" for name, size in app.pools.items())
    return (
        f"app {app.app!r} on {engine}; flows: {', '.join(app.flows)}; "
        f"pools: {pools or 'none'}; steps at once: {app.max_concurrent_steps}"
    )


def _say(line: str) -> None:
    print(f"iworkflow worker: {line}", file=sys.stderr, flush=True)


def _log(level: int) -> None:
    """Show the log on stderr, unless the app has set up its own."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(name)s%(where)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("iworkflow").setLevel(level)


class _Lines(logging.Formatter):
    """Lines that name the run where a flow wrote them."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        run = getattr(record, "workflow_id", None)
        record.where = "" if run is None else f" [{run}]"
        return super().formatMessage(record)
