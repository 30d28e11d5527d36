"""`iworkflow start APP/FLOW --id ID`: start a run, and wait for it if asked."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from iworkflow.core.cli.problems import Problem, pick_engine
from iworkflow.core.client import Client, Handle
from iworkflow.core.definition import Target
from iworkflow.core.engines import MEMORY, Engine
from iworkflow.core.errors import Failure, FlowError
from iworkflow.core.options import StartOptions


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "start",
        parents=[common],
        help="start a flow",
        description="Start a flow, or attach to the run that bears the id. Prints the id and "
        "'created' or 'attached'; with --wait the outcome as JSON instead.",
    )
    parser.add_argument("target", metavar="APP/FLOW", help="what to run")
    parser.add_argument("words", metavar="JSON", nargs="*", help="the flow's arguments")
    parser.add_argument("--id", required=True, help="the id of the run")
    parser.add_argument(
        "--arg", metavar="JSON", action="append", default=[], help="one more argument"
    )
    parser.add_argument("--wait", action="store_true", help="wait and print the outcome")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds the run may take")
    parser.add_argument("--priority", type=int, help="1 (first) to 5 (last); default: 3")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Start the run; return the exit code."""
    target = _target(args.target)
    values = [_value(place, text) for place, text in enumerate(args.words + args.arg, start=1)]
    engine = pick_engine(args.engine)
    _refuse_memory(engine)
    return asyncio.run(_run(engine.client(), target, values, args))


async def _run(
    client: Client, target: Target[Any], values: list[Any], args: argparse.Namespace
) -> int:
    async with client:
        try:
            handle = await _start(client, target, values, args)
            _tell(handle, waiting=args.wait)
            if args.wait:
                print(json.dumps(await handle.result(), ensure_ascii=False))
        except FlowError as error:
            print(f"iworkflow start: {_describe(args.id, error)}", file=sys.stderr)
            return 1
    return 0


async def _start(
    client: Client, target: Target[Any], values: list[Any], args: argparse.Namespace
) -> Handle[Any]:
    options = StartOptions(timeout=args.timeout, priority=args.priority)
    try:
        return await client.start(target, *values, id=args.id, **options)
    except (ValueError, TypeError, Failure) as error:
        raise Problem(str(error)) from error


def _tell(handle: Handle[Any], *, waiting: bool) -> None:
    line = f"{handle.id} {'created' if handle.created else 'attached'}"
    print(line, file=sys.stderr if waiting else sys.stdout, flush=True)


def _describe(id: str, error: FlowError) -> str:
    facts = f"reason {error.reason}" + (f", type {error.type}" if error.type else "")
    details = "" if error.details is None else f"; details: {json.dumps(error.details)}"
    return f"{id}: {error.message} ({facts}){details}"


def _target(text: str) -> Target[Any]:
    app, _, flow = text.partition("/")
    if not app or not flow:
        raise Problem(f"{text!r} names no flow; write it as APP/FLOW, like ioutreach/outreach")
    try:
        return Target(app, flow)
    except ValueError as error:
        raise Problem(str(error)) from error


def _value(place: int, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Problem(
            f"argument {place} is not JSON: {text!r} ({error}); a text needs quotes of its own, "
            f"like '{json.dumps(text, ensure_ascii=False)}'"
        ) from None


def _refuse_memory(engine: Engine) -> None:
    if engine.name == MEMORY:
        raise Problem(
            "the memory engine lives inside one process, where this command cannot reach a "
            'worker; name another with --engine, or run "pip install iworkflow-dbos[embedded]"'
        )
