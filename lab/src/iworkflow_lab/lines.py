"""The form of the lines that a worker of the lab logs."""

from __future__ import annotations

import logging

FACTS = ("workflow_id", "flow", "app")
"""What a record of a flow carries."""


def log_lines() -> logging.Formatter:
    """Return lines that show what the record carries of a flow, before its message."""
    form = " ".join(["%(levelname)s", *(f"{fact}=%({fact})s" for fact in FACTS), "%(message)s"])
    return logging.Formatter(form, defaults=dict.fromkeys(FACTS))
