"""The engines under test, by name."""

from __future__ import annotations

from collections.abc import Mapping

from iworkflow_lab.engines.base import EngineLab
from iworkflow_lab.engines.dbos import DbosLab
from iworkflow_lab.engines.memory import MemoryLab
from iworkflow_lab.engines.temporal import TemporalLab

_LABS: tuple[EngineLab, ...] = (
    TemporalLab("temporal"),
    TemporalLab("temporal-uncached", cached=0),
    DbosLab(),
    MemoryLab(),
)
ENGINES: Mapping[str, EngineLab] = {lab.name: lab for lab in _LABS}

__all__ = ["ENGINES"]
