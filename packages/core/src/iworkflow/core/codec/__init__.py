"""The one codec for everything that crosses the port: JSON, typed by hints on the way back."""

from iworkflow.core.codec.check import check_hint
from iworkflow.core.codec.decode import decode, require_msgspec
from iworkflow.core.codec.digest import DEFAULT_MAX_PAYLOAD, check_size, dumps, fingerprint, loads
from iworkflow.core.codec.encode import encode, encode_terse
from iworkflow.core.codec.hints import ANY, show

__all__ = [
    "ANY",
    "DEFAULT_MAX_PAYLOAD",
    "check_hint",
    "check_size",
    "decode",
    "dumps",
    "encode",
    "encode_terse",
    "fingerprint",
    "loads",
    "require_msgspec",
    "show",
]
