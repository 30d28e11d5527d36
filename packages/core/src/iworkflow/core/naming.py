"""Checks of the names that a caller gives: ids, topics, keys."""

from __future__ import annotations

from typing import Final

MAX_NAME: Final = 255
"""Bytes in UTF-8. Beyond its own limit, an engine would try again for ever, or answer nothing."""
_SHOWN = 60


def check_name(what: str, value: object) -> str:
    """Check an id, a topic or a key, and return it.

    Every engine can keep what passes: text that is not empty, has no NUL, is valid Unicode, and
    is not longer than `MAX_NAME`.

    Args:
        what: what the name is of, such as `id of a flow`.
        value: the name.

    Raises:
        ValueError: it is anything else.
    """
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} must be a non-empty string, not {value!r}")
    if "\0" in value or not _is_unicode(value):
        raise ValueError(f"{what} must be text without NUL and lone surrogates, not {value!r}")
    size = len(value.encode())
    if size > MAX_NAME:
        raise ValueError(
            f"{what} must have at most {MAX_NAME} bytes, not {size} "
            f"({value[:_SHOWN]!r}...); shorten it, or take a hash of it"
        )
    return value


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
