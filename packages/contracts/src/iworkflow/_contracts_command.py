"""The entry of the command `iworkflow-contracts`.

It stands outside of `iworkflow.contracts`, which refuses to be imported next to a core of
another version: the command says so, and exits as for any import error.
"""

from __future__ import annotations

import sys

USAGE = 2


def main() -> int:
    """Run the command; give its exit code."""
    try:
        from iworkflow.contracts.cli import main as command
    except (ImportError, RuntimeError) as error:
        print(f"iworkflow-contracts: {error}", file=sys.stderr)  # noqa: T201
        return USAGE
    return command()
