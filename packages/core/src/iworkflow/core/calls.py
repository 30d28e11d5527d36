"""What a client and a context share: requests, messages and what answers them mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from iworkflow.core.codec import check_size, encode
from iworkflow.core.errors import FlowError, Reason
from iworkflow.core.jsonvalue import JsonValue
from iworkflow.core.naming import check_name
from iworkflow.core.options import Duration, check_priority, seconds
from iworkflow.core.port import Existing, Message, Outcome, StartReply, StartRequest

if TYPE_CHECKING:
    from iworkflow.core.definition import Target


def encode_args(target: Target[Any], args: Sequence[Any], max_payload: int) -> list[JsonValue]:
    """Bind, encode and measure the arguments of a run; see `Client.start` for the errors."""
    where = f"flow {target.flow!r}"
    if target.signature is not None:
        encoded = target.signature.encode_args(args, where=where)
    else:
        encoded = [
            encode(value, where=f"{where}, argument {place}")
            for place, value in enumerate(args, start=1)
        ]
    check_size(encoded, max_payload, where=f"arguments of {where}")
    return encoded


def encode_one(value: Any, max_payload: int, *, where: str) -> JsonValue:
    """Encode and measure one value."""
    encoded = encode(value, where=where)
    check_size(encoded, max_payload, where=where)
    return encoded


def start_request(
    target: Target[Any],
    args: Sequence[JsonValue],
    *,
    id: str,
    timeout: Duration | None,
    priority: int | None,
    default_priority: int = 3,
    parent_id: str | None = None,
) -> StartRequest:
    """Build the request for a run of the target; its options are checked."""
    return StartRequest(
        app=target.app,
        flow=target.flow,
        id=check_name("id of a flow", id),
        args=args,
        timeout=None if timeout is None else seconds("timeout", timeout),
        priority=check_priority(priority, default_priority),
        parent_id=parent_id,
    )


def message(topic: str, value: Any, message_id: str | None, max_payload: int) -> Message:
    """Build a message; its names are checked."""
    check_name("topic", topic)
    if message_id is not None:
        check_name("message_id", message_id)
    encoded = encode_one(value, max_payload, where=f"message for topic {topic!r}")
    return Message(topic, encoded, message_id)


def check_options(call: str, options: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse a keyword that is no option.

    Raises:
        TypeError: it names the keyword, and the option that may be meant.
    """
    for name in options:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{call}() has no option {name!r}{hint}")


def check_existing(value: Any) -> Existing:
    """Check `on_existing`."""
    try:
        return Existing(value)
    except ValueError:
        raise ValueError(f"on_existing must be 'attach' or 'reject', not {value!r}") from None


def check_reply(request: StartRequest, reply: StartReply, existing: Existing) -> None:
    """Refuse a run that bears the id already, if it must not be attached to.

    Raises:
        FlowError: `already-started`: the run is of another flow, or any under `reject`.
    """
    same = (reply.app, reply.flow) == (request.app, request.flow)
    if not same or (existing is Existing.REJECT and not reply.created):
        raise taken(request.id, reply)


def taken(id: str, reply: StartReply) -> FlowError:
    """Build the error of an id that is taken."""
    return FlowError(
        f"id {id!r} is taken by a run of '{reply.app}/{reply.flow}' ({reply.status})",
        reason=Reason.ALREADY_STARTED,
    )


def value_of(outcome: Outcome) -> JsonValue:
    """Return the value of an outcome.

    Raises:
        FlowError: the outcome is an error; its causes are its `__cause__`.
    """
    if outcome.error is not None:
        raise outcome.error.to_exception()
    return outcome.value
