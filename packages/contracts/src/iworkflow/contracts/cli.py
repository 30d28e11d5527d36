"""The command `iworkflow-contracts`, which has nothing to generate yet and says so."""

from __future__ import annotations

import sys
from importlib.metadata import version

USAGE_ERROR = 2


def main() -> int:
    """Say that contracts are not in this release; always exit 2, writing nothing."""
    own = version("iworkflow-contracts")
    print(f"iworkflow-contracts {own}: contracts are not in this release", file=sys.stderr)
    return USAGE_ERROR
