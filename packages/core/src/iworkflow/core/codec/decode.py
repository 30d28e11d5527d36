"""Reading values back: msgspec, loaded when it is first needed, told to read plain JSON."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from iworkflow.core.codec.check import check_hint
from iworkflow.core.codec.hints import ANY, is_a, is_pydantic, show, unwrap
from iworkflow.core.codec.models import load_model
from iworkflow.core.errors import Failure, non_retryable

_PLACE = re.compile(r" - at (?P<key>`key` in )?`\$?(?P<path>.*)`$", re.DOTALL)


@lru_cache(maxsize=1)
def require_msgspec() -> Any:
    """Import msgspec.

    Raises:
        ImportError: it is not installed; says how to install it.
    """
    try:
        import msgspec
    except ImportError as error:
        raise ImportError(
            "values are read back with msgspec, which is not installed; "
            'run: pip install "iworkflow-core[codec]"',
            name="msgspec",
        ) from error
    return msgspec


def decode(value: object, hint: object = ANY, *, where: str) -> Any:
    """Build the value that `encode` was given, by the same hint.

    Without a hint it is plain JSON. The result shares nothing with `value`.

    Raises:
        Failure: type `DecodeError`, not retryable: the value does not fit the hint. Names
            `where`, the path and the hint.
        TypeError: the hint is none that the codec can read.
        ImportError: msgspec is not installed.
    """
    if unwrap(hint) is ANY:
        return _copy(value)
    check_hint(hint, where=where)
    require_msgspec()
    try:
        return convert(_copy(value), hint)
    except (ValueError, TypeError, RecursionError) as error:
        raise _misfit(error, hint, where) from error


def convert(value: Any, hint: Any) -> Any:
    """Let msgspec build the value.

    Raises:
        ValueError: it does not fit (msgspec's `ValidationError` is one).
    """
    return require_msgspec().convert(value, type=hint, str_keys=True, dec_hook=_hook)


def _hook(hint: Any, value: Any) -> Any:
    if is_pydantic(hint):
        return load_model(hint, value)
    raise TypeError(f"the codec does not know the hint {show(hint)}")


def _copy(value: Any) -> Any:
    if is_a(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if is_a(value, list | tuple):
        return [_copy(item) for item in value]
    return value


def _misfit(error: Exception, hint: object, where: str) -> Failure:
    message = str(error)
    found = _PLACE.search(message)
    path = "" if found is None else found["path"] + (" (a key)" if found["key"] else "")
    what = message if found is None else message[: found.start()]
    value_of = "" if not path or where[-1:].isalnum() else ": value"
    return non_retryable(
        f"{where}{value_of}{path}: {what.replace('`', '')}; it was read as {show(hint)}",
        type="DecodeError",
        details={"path": path, "hint": show(hint)},
    )
