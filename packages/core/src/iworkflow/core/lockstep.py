"""The packages of iworkflow carry one version and work with that one alone."""

from __future__ import annotations

from importlib import metadata

CORE = "iworkflow-core"
UNKNOWN = "unknown"


def installed(distribution: str) -> str:
    """Return the version of an installed distribution, or "unknown" where there is no metadata."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def require_core(distribution: str) -> None:
    """Refuse to go on next to a core of another version.

    Args:
        distribution: the one that asks, such as `iworkflow-dbos`.

    Raises:
        RuntimeError: the versions differ, or one of the two is only on the path and has none;
            it names both and the command that mends it.
    """
    own, core = installed(distribution), installed(CORE)
    if UNKNOWN in (own, core):
        missing, known = (CORE, own) if core == UNKNOWN else (distribution, core)
        if known == UNKNOWN:
            missing = distribution
        raise RuntimeError(
            f"{missing} is on the path but not installed, so {distribution} ({own}) cannot check "
            f"that it fits {CORE} ({core}); run: pip install {_pin(missing, known)}"
        )
    if own != core:
        raise RuntimeError(
            f"{distribution} {own} does not work with {CORE} {core}: both must be of one version; "
            f"run: pip install {_pin(distribution, core)}"
        )


def _pin(distribution: str, version: str) -> str:
    return f'"{distribution}"' if version == UNKNOWN else f'"{distribution}=={version}"'
