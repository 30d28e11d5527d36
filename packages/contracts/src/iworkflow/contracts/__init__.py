"""Typed process contracts for iworkflow flows. This release holds its place and nothing more.

Importing it checks that core is of the same version. Contracts themselves are not in it yet: asking
for any name says so.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from iworkflow.core.lockstep import require_core

require_core("iworkflow-contracts")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise ImportError(
            f"iworkflow-contracts {version('iworkflow-contracts')} has no {name!r}: contracts are "
            "not in this release; share a typed Target between packages until they are"
        )
