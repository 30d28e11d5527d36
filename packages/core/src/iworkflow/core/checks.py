"""What an app is built from: its name, its limits, and how a choice that is none is named."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_APP_NAME = re.compile(r"[a-z0-9_-]{3,256}")


def check_app_name(app: object) -> None:
    """Check the name of an app: every engine takes it.

    Raises:
        ValueError: it is not 3 to 256 characters of a-z, 0-9, `-` and `_`.
    """
    if not isinstance(app, str) or not _APP_NAME.fullmatch(app):
        raise ValueError(
            f"app name {app!r}: a name has 3 to 256 characters of a-z, 0-9, '-' and '_'"
        )


def choices(sort: str, wanted: str, known: Iterable[str]) -> str:
    """List what is known, and the one that was probably meant: the end of a message."""
    names = list(known)
    listed = ", ".join(repr(name) for name in names) if names else "none"
    close = difflib.get_close_matches(wanted, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"({sort}s: {listed}){hint}"


def check_limit(what: str, limit: object) -> None:
    """Check a limit of 1 or more.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ValueError(f"{what} must be an integer of 1 or more, not {limit!r}")
