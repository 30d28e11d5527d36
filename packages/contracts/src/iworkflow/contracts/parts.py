"""What a contract is made of besides types: states and messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class State:
    """A state of the process, which `ctx.set_state("state", name)` enters.

    Args:
        next: the states and outcomes that may follow.
        description: what is going on in it, for the page.
    """

    next: Sequence[str]
    description: str = ""


@dataclass(frozen=True, slots=True)
class Message(Generic[T]):
    """A signal or a query of a contract.

    Args:
        description: what it says, for the page.
        type: the type of its value.
    """

    description: str
    type: TypeForm[T]
    name: str = field(default="", kw_only=True)
    """The topic or the key; a contract fills it in."""
    contract: str = field(default="", kw_only=True)
    """The contract that it belongs to."""

    if not TYPE_CHECKING:
        # `Message[str](...)` fails before Python 3.13 with that of Generic.
        __class_getitem__ = classmethod(GenericAlias)


def is_message(value: object) -> TypeGuard[Message[Any]]:
    """Whether this is a message, of whatever type."""
    return isinstance(value, Message)
