"""What the steps really did, written down outside of any engine."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from iworkflow_lab.effects import here
from iworkflow_lab.gates import begin, end


@contextmanager
def noted() -> Generator[None]:
    """Note the begin of the running step and how it ended."""
    effect = begin("")
    try:
        yield
    except BaseException:
        here().append(replace(effect, what="fail"))
        raise
    end(effect)
