"""The template of a contract's ids: read once, filled in from the input."""

from __future__ import annotations

import string
import typing
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from iworkflow.contracts.errors import invalid_id
from iworkflow.contracts.members import Field
from iworkflow.core.checks import choices
from iworkflow.core.codec import encode, show
from iworkflow.core.codec.hints import is_a, is_enum, is_literal, of_class, unwrap
from iworkflow.core.naming import check_name

_FIT = (str, int, UUID, date)
_REMEDY = "str, int, UUID, date, an enum or a Literal of str or int"
_UNFIT_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the template: the text before it, and the field that fills it."""

    before: str
    field: Field


@dataclass(frozen=True, slots=True)
class IdTemplate:
    """A template whose fields are known to stand in every input."""

    text: str
    slots: tuple[Slot, ...] = ()
    rest: str = ""

    def fill(self, contract: str, data: Any) -> str:
        """Build the id of an input.

        Raises:
            Failure: type `INVALID_WORKFLOW_ID`, not retryable: a field is missing, of another
                type, empty, blank, or holds control characters.
        """
        parts = [slot.before + _value(contract, slot.field, data) for slot in self.slots]
        return "".join(parts) + self.rest


def _value(contract: str, field: Field, data: Any) -> str:
    try:
        raw: Any = data[field.name] if is_a(data, dict) else getattr(data, field.name)
    except (KeyError, AttributeError):
        raise invalid_id(contract, field.key, "is missing from the input") from None
    try:
        encoded = encode(raw, field.hint, where=field.key)
    except TypeError as error:
        raise invalid_id(contract, field.key, f"does not fit: {error}") from None
    text = str(encoded)
    why = _unfit(text)
    if why:
        raise invalid_id(contract, field.key, f"is {why}: {text[:80]!r}")
    return text


def _unfit(text: str) -> str | None:
    if not text:
        return "empty"
    if not text.strip():
        return "blank"
    if any(unicodedata.category(one) in _UNFIT_CATEGORIES for one in text):
        return "text with control characters"
    return None


class _Faults(list[str]):
    """What is wrong with the template, collected while it is read."""


def read_template(
    text: object, fields: Sequence[Field], owner: str
) -> tuple[IdTemplate, Sequence[str]]:
    """Read a template, and say what is wrong with it.

    Args:
        text: such as `iprofile-org-{code}`; `{{` and `}}` stand for braces.
        fields: the fields of the input.
        owner: the name of the input, for messages.

    Returns:
        The template, and its faults; with a fault it is of no use.
    """
    faults = _Faults()
    if not isinstance(text, str):
        return IdTemplate(""), [f"must be a string, not {text!r}"]
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError as error:
        return IdTemplate(text), [f"{text!r} cannot be read: {error}"]
    template = IdTemplate(text, *_slots(pieces, {one.key: one for one in fields}, owner, faults))
    faults.extend(_text_faults(template))
    return template, faults


def _slots(
    pieces: Sequence[tuple[str, str | None, str | None, str | None]],
    fields: dict[str, Field],
    owner: str,
    faults: _Faults,
) -> tuple[tuple[Slot, ...], str]:
    slots: list[Slot] = []
    before = ""
    for literal, name, spec, conversion in pieces:
        before += literal
        if name is None:
            continue
        if spec or conversion:
            faults.append(f"field {name!r} takes no format or conversion; write {{{name}}}")
            continue
        fault = _field_fault(name, fields, owner)
        if fault is not None:
            faults.append(fault)
            continue
        if slots and not before:
            last = slots[-1].field.key
            faults.append(f"fields {last!r} and {name!r} need text between them")
        slots.append(Slot(before, fields[name]))
        before = ""
    return tuple(slots), before


def _field_fault(name: str, fields: dict[str, Field], owner: str) -> str | None:
    if not name:
        return "a field has no name; write {name}"
    if name not in fields:
        return f"field {name!r} is not in {owner} {choices('field', name, fields)}"
    if not fields[name].required:
        return f"field {name!r} is optional in {owner}; an id needs a required one"
    hint = fields[name].hint
    if not _fits(unwrap(hint)):
        return f"field {name!r} is of type {show(hint)}, which cannot stand in an id; use {_REMEDY}"
    return None


def _fits(hint: Any) -> bool:
    if is_literal(hint):
        return all(of_class(one) in (str, int) for one in typing.get_args(hint))
    return hint in _FIT or is_enum(hint)


def _text_faults(template: IdTemplate) -> Iterator[str]:
    fixed = "".join(slot.before for slot in template.slots) + template.rest
    if not template.text.strip():
        yield f"must not be empty or blank: {template.text!r}"
        return
    if any(unicodedata.category(one) in _UNFIT_CATEGORIES for one in fixed):
        yield f"{template.text!r} holds control characters"
        return
    try:
        check_name("it", template.text)
    except ValueError as error:
        yield str(error)
