"""Which versions of Temporal's SDK this adapter works with."""

from __future__ import annotations

from importlib import metadata

ALLOWED = "1.35"
"""The minor version; its patches are all allowed."""


def require_temporalio() -> None:
    """Refuse to go on with another version of the SDK.

    The sandbox and the events of a history are close to the SDK's inside.

    Raises:
        RuntimeError: it names both versions and the command that mends it.
    """
    try:
        found = metadata.version("temporalio")
    except metadata.PackageNotFoundError:
        found = "none"
    if found.split(".")[:2] != ALLOWED.split("."):
        raise RuntimeError(
            f"iworkflow-temporal works with temporalio {ALLOWED}, not {found}; "
            f'run: pip install "temporalio=={ALLOWED}.*"'
        )
