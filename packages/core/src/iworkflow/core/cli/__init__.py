"""The command `iworkflow`: run a worker, start a flow, run a development server.

Exit codes: 0; 1 when the run or the engine failed; 2 when the command was not understood; 130
after Ctrl-C. What goes wrong is one paragraph on stderr; `--verbose` adds the traceback.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from iworkflow.core.cli import dev, start, worker
from iworkflow.core.cli.problems import EXPECTED, INTERRUPTED, Problem

_NUMBER = re.compile(r"-\d")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Args:
        argv: the words after the command's name; those of this process when left out.
    """
    args = _parse(argv)
    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        return INTERRUPTED
    except (Problem, *EXPECTED) as error:
        if args.verbose:
            raise
        print(f"iworkflow {args.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, Problem) else 1


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse, and take words after an option for values too, which argparse does not."""
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    unknown = [word for word in rest if word.startswith("-") and not _NUMBER.match(word)]
    if unknown or (rest and not hasattr(args, "words")):
        parser.error(f"unknown: {' '.join(unknown or rest)}")
    if rest:
        args.words += rest
    return args


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--engine", help="the engine; default: IWORKFLOW_ENGINE, or the only one")
    common.add_argument("-v", "--verbose", action="store_true", help="more log, and tracebacks")
    parser = argparse.ArgumentParser(
        prog="iworkflow", description="Durable flows in plain asyncio."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (worker, start, dev):
        module.add_to(commands, common)
    return parser
