"""The walk through classes with members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iworkflow.core.codec.digest import dumps
from iworkflow.core.codec.hints import is_a, is_unset, of_class, show
from iworkflow.core.codec.layout import Layout, Member, layout
from iworkflow.core.codec.scalars import Refused
from iworkflow.core.codec.walk import Find, Walk, encode_item, mismatch, subclass


def encode_object(find: Find, hint: Any, cls: type, value: Any, walk: Walk) -> Any:
    """Encode an instance of a class by its members, in declaration order."""
    shape = layout(hint)
    if shape.kind == "typeddict":
        return _typeddict(find, hint, shape, value, walk)
    if of_class(value) is not cls:
        raise subclass(hint, value)
    if shape.as_array:
        return _positional(find, shape, value, walk)
    data: dict[str, Any] = {} if shape.tag is None else {shape.tag[0]: shape.tag[1]}
    data.update(_named(find, shape, value, walk))
    return data


def _named(find: Find, shape: Layout, value: Any, walk: Walk) -> Iterator[tuple[str, Any]]:
    for member in shape.members:
        item = _attribute(value, member)
        if is_unset(type(item)):
            continue
        encoded = _member(find, member, item, walk)
        if not (walk.omit_defaults and _at_default(find, member, encoded, walk)):
            yield member.key, encoded


def _positional(find: Find, shape: Layout, value: Any, walk: Walk) -> list[Any]:
    items = [_member(find, member, _attribute(value, member), walk) for member in shape.members]
    if walk.omit_defaults:
        for member in reversed(shape.members):
            if not _at_default(find, member, items[-1], walk):
                break
            items.pop()
    return items if shape.tag is None else [shape.tag[1], *items]


def _attribute(value: Any, member: Member) -> Any:
    try:
        return getattr(value, member.name)
    except AttributeError:
        raise Refused("is not set").below(f".{member.name}") from None


def _member(find: Find, member: Member, item: Any, walk: Walk) -> Any:
    try:
        return find(member.hint)(item, walk)
    except Refused as refused:
        raise refused.below(f".{member.name}") from None


def _at_default(find: Find, member: Member, encoded: Any, walk: Walk) -> bool:
    if member.default is None:
        return False
    try:
        default = find(member.hint)(member.default(), Walk(omit_defaults=True))
    except Exception:
        return False
    return dumps(default) == dumps(encoded)


def _typeddict(find: Find, hint: Any, shape: Layout, value: Any, walk: Walk) -> Any:
    if not is_a(value, dict):
        raise mismatch(hint, value)
    known = {member.name: member for member in shape.members}
    for key in value:
        if key not in known:
            raise Refused(f"{show(hint)} has no member {key!r:.80}")
    missing = [name for name, member in known.items() if member.required and name not in value]
    if missing:
        raise Refused(f"{show(hint)} lacks the member {missing[0]!r}")
    return {
        name: encode_item(find(member.hint), value[name], walk, f"[{name!r}]")
        for name, member in known.items()
        if name in value
    }
