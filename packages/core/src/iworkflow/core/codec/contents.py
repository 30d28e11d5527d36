"""The walk through lists, tuples, sets and dicts."""

from __future__ import annotations

from functools import partial
from typing import Any

from iworkflow.core.codec.containers import Sort, arguments_of
from iworkflow.core.codec.digest import dumps
from iworkflow.core.codec.hints import ANY, is_a, origin, show, unwrap
from iworkflow.core.codec.scalars import Refused, text
from iworkflow.core.codec.walk import (
    Encoder,
    Find,
    Walk,
    class_name,
    encode_item,
    guarded,
    mismatch,
)


def container(find: Find, hint: Any, sort: Sort) -> Encoder:
    """Build the encoder of a container's hint."""
    inner = arguments_of(hint, sort)
    build = {"dict": _dict, "set": _hinted_set, "list": _list, "tuple": _tuple}[sort]
    return guarded(build(find, hint, inner))


def _list(find: Find, hint: Any, inner: tuple[Any, ...]) -> Encoder:
    encoder = find(inner[0])

    def encode_list(value: Any, walk: Walk) -> Any:
        if not is_a(value, list):
            raise _reads_back_as("list", hint, value)
        return [encode_item(encoder, item, walk, f"[{index}]") for index, item in enumerate(value)]

    return encode_list


def _reads_back_as(sort: str, hint: Any, value: Any) -> Refused:
    if origin(hint).__name__ != sort and is_a(value, origin(hint)):
        return Refused(
            f"{show(hint)} reads back as a {sort}: give a {sort}, not {class_name(value)}"
        )
    return mismatch(hint, value)


def _tuple(find: Find, hint: Any, inner: tuple[Any, ...]) -> Encoder:
    if inner[-1:] == (Ellipsis,):
        return _uniform_tuple(hint, find(inner[0]))
    encoders = [find(one) for one in inner]

    def encode_tuple(value: Any, walk: Walk) -> Any:
        if not is_a(value, tuple):
            raise mismatch(hint, value)
        if len(value) != len(encoders):
            raise Refused(f"expected {show(hint)}, got a tuple of {len(value)}")
        pairs = zip(encoders, value, strict=True)
        return [encode_item(one, item, walk, f"[{n}]") for n, (one, item) in enumerate(pairs)]

    return encode_tuple


def _uniform_tuple(hint: Any, encoder: Encoder) -> Encoder:
    def encode_tuple(value: Any, walk: Walk) -> Any:
        if not is_a(value, tuple):
            raise mismatch(hint, value)
        return [encode_item(encoder, item, walk, f"[{index}]") for index, item in enumerate(value)]

    return encode_tuple


def _hinted_set(find: Find, hint: Any, inner: tuple[Any, ...]) -> Encoder:
    return set_encoder(hint, find(inner[0]), hashable=unwrap(inner[0]) is ANY)


def _hashable(encoder: Encoder, item: Any, walk: Walk) -> Any:
    encoded = encoder(item, walk)
    if isinstance(encoded, list | dict):
        raise Refused(f"a {class_name(item)} in a set without a hint would not read back")
    return encoded


def set_encoder(hint: Any, encoder: Encoder, *, hashable: bool) -> Encoder:
    """Encode sets in the order of what they are encoded to.

    Args:
        hint: the set's.
        encoder: the elements'.
        hashable: refuse elements that would read back as lists and dicts.
    """
    cls = origin(hint)
    if hashable:
        encoder = partial(_hashable, encoder)

    def encode_set(value: Any, walk: Walk) -> Any:
        if not is_a(value, cls):
            raise mismatch(hint, value)
        return sorted(
            (encode_item(encoder, item, walk, f"{{{item!r:.40}}}") for item in value), key=dumps
        )

    return encode_set


def _dict(find: Find, hint: Any, inner: tuple[Any, ...]) -> Encoder:
    key_encoder = _plain_key if unwrap(inner[0]) is ANY else _hinted_key(find, inner[0])
    encoder = find(inner[1])
    cls = origin(hint)

    def encode_dict(value: Any, walk: Walk) -> Any:
        if not is_a(value, cls):
            raise mismatch(hint, value)
        items = value.items()
        return {
            key_encoder(key, walk): encode_item(encoder, item, walk, f"[{key!r:.40}]")
            for key, item in items
        }

    return encode_dict


def _plain_key(key: Any, walk: Walk) -> str:
    if not is_a(key, str):
        raise Refused(
            f"the key {key!r:.40} is of type {class_name(key)}; without a hint keys must be str, "
            f"with one such as dict[{class_name(key)}, ...] they need not"
        )
    return text(str.__str__(key))


def _hinted_key(find: Find, hint: Any) -> Encoder:
    encoder = find(hint)

    def encode_key(key: Any, walk: Walk) -> str:
        try:
            encoded = encoder(key, walk)
        except Refused as refused:
            raise refused.below(f" (key {key!r:.40})") from None
        return encoded if isinstance(encoded, str) else repr(encoded)

    return encode_key
