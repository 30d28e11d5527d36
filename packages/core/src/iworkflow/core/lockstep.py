"""The packages of iworkflow carry one version and work with that one alone."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

CORE = "iworkflow-core"


def require_core(distribution: str) -> None:
    """Refuse to go on next to a core of another version.

    A distribution that runs from a source tree, without metadata, is not checked.

    Args:
        distribution: the one that asks, such as `iworkflow-dbos`.

    Raises:
        RuntimeError: the versions differ; it names both and the command that mends it.
    """
    try:
        own, core = version(distribution), version(CORE)
    except PackageNotFoundError:
        return
    if own != core:
        raise RuntimeError(
            f"{distribution} {own} works with {CORE} {own} only, and found {core}; "
            f'run "pip install {distribution}=={own} {CORE}=={own}"'
        )
