"""The engines under test, by name."""

from __future__ import annotations

from collections.abc import Mapping

from iworkflow_lab.engines.base import EngineLab
from iworkflow_lab.engines.dbos import DbosLab
from iworkflow_lab.engines.memory import MemoryLab

ENGINES: Mapping[str, EngineLab] = {lab.name: lab for lab in (MemoryLab(), DbosLab())}

__all__ = ["ENGINES"]
