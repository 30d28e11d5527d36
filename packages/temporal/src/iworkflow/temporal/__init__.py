"""The Temporal engine for iworkflow flows. This release holds its place and nothing more.

Importing it checks that core is of the same version. The adapter itself (client, runtime,
engine) is not in it yet: asking for any name says so.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from iworkflow.core.lockstep import require_core

require_core("iworkflow-temporal")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise ImportError(
            f"iworkflow-temporal {version('iworkflow-temporal')} has no {name!r}: the Temporal "
            'adapter is not in this release; use engine("memory") or iworkflow-dbos until it is'
        )
