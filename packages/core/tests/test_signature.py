# ruff: noqa: ISC004
"""Signatures: read from callables of any sort, bound, encoded, decoded, fingerprinted."""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from iworkflow.core.codec import ANY
from iworkflow.core.errors import Failure
from iworkflow.core.signature import Signature

if TYPE_CHECKING:
    from fractions import Fraction

    from somewhere import Context


@dataclass
class Lead:
    name: str
    tags: list[str] = field(default_factory=list)
    score: float = 0.5


@dataclass
class Envelope:
    lead: Lead


def compose(lead: Lead, day: date, note: str = "n") -> Envelope:
    return Envelope(lead)


async def outreach(ctx: Context, lead: Lead) -> str:
    return lead.name


def several(first: int, *rest: date) -> None: ...


def bare(a, b=3):  # type: ignore[no-untyped-def]
    return a


def unresolved(ratio: Fraction) -> None: ...


def needs_keyword(a: int, *, mode: str) -> None: ...


def has_keyword(a: int, *, mode: str = "x", **rest: int) -> None: ...


class Mailer:
    def send(self, lead: Lead) -> date:
        return date(2024, 1, 1)

    @classmethod
    def make(cls, lead: Lead) -> date:
        return date(2024, 1, 1)

    @staticmethod
    def plain(lead: Lead) -> date:
        return date(2024, 1, 1)

    def __call__(self, lead: Lead) -> date:
        return date(2024, 1, 1)


def decorated(fn: Any) -> Any:
    @functools.wraps(fn)
    def wrapper(*args: Any) -> Any:
        return fn(*args)

    return wrapper


COMPOSE = Signature.of(compose, skip=0, where="step 'compose'")
WHERE = "step 'compose'"
DAY = date(2024, 1, 1)


def test_hints_and_defaults_are_read() -> None:
    """Each parameter has its hint and whether it is required; the result has its own."""
    shown = [(one.name, one.hint, one.required) for one in COMPOSE.parameters]
    assert shown == [("lead", Lead, True), ("day", date, True), ("note", str, False)]
    assert COMPOSE.result is Envelope
    bare_signature = Signature.of(bare, skip=0, where="x")
    assert [one.hint for one in bare_signature.parameters] == [ANY, ANY]
    assert bare_signature.result is ANY


def test_what_is_skipped_need_not_resolve() -> None:
    """A context imported under TYPE_CHECKING is no trouble."""
    signature = Signature.of(outreach, skip=1, where="flow 'outreach'")
    assert [one.name for one in signature.parameters] == ["lead"]


@pytest.mark.parametrize(
    "fn",
    [
        Mailer().send,
        Mailer.make,
        Mailer.plain,
        Mailer(),
        functools.partial(Mailer.send, Mailer()),
        functools.partial(functools.partial(Mailer().send)),
        decorated(Mailer().send),
    ],
)
def test_a_callable_of_any_sort(fn: Any) -> None:
    """Methods, partials, decorated functions and callable objects have their hints."""
    signature = Signature.of(fn, skip=0, where="x")
    assert [one.hint for one in signature.parameters] == [Lead]
    assert signature.result is date


@pytest.mark.parametrize(
    ("signature", "args", "message"),
    [
        (COMPOSE, (), "missing arguments 'lead', 'day'"),
        (COMPOSE, (1,), "missing argument 'day'"),
        (COMPOSE, (1, 2, 3, 4), "takes 3 arguments, 4 were given"),
        (Signature.of(outreach, skip=1, where="x"), (1, 2), "takes 1 argument, 2 were given"),
        (Signature(), (1,), "takes 0 arguments, 1 were given"),
        (Signature.of(several, skip=0, where="x"), (), "missing argument 'first'"),
    ],
)
def test_arguments_that_do_not_bind(
    signature: Signature, args: tuple[Any, ...], message: str
) -> None:
    """TypeError at the call names what is missing or how many are too many."""
    for call in (signature.bind, signature.encode_args):
        with pytest.raises(TypeError) as caught:
            call(args, where=WHERE)
        assert str(caught.value) == f"{WHERE}: {message}"
    with pytest.raises(Failure) as stored:
        signature.decode_args(args, where=WHERE)
    assert stored.value.message == f"{WHERE}: {message}"
    assert stored.value.type == "DecodeError"
    assert stored.value.non_retryable


def test_arguments_come_back_equal() -> None:
    """Encoded by the hints and decoded by them, variadic ones too; defaults stay away."""
    args = [Lead("a", ["t"]), DAY]
    encoded = COMPOSE.encode_args(args, where=WHERE)
    assert encoded == [{"name": "a", "tags": ["t"], "score": 0.5}, "2024-01-01"]
    assert COMPOSE.decode_args(encoded, where=WHERE) == args
    variadic = Signature.of(several, skip=0, where="x")
    assert variadic.decode_args(variadic.encode_args([1, DAY, DAY], where="x"), where="x") == [
        1,
        DAY,
        DAY,
    ]


def test_a_result_comes_back_equal() -> None:
    """By the hint of the result."""
    encoded = COMPOSE.encode_result(Envelope(Lead("a")), where=WHERE)
    assert COMPOSE.decode_result(encoded, where=WHERE) == Envelope(Lead("a"))


def test_errors_name_the_argument_and_its_path() -> None:
    """An argument that cannot be encoded, a result, and stored ones that no longer fit."""
    with pytest.raises(TypeError, match=r"^step 'compose': lead\.tags\[1\]: expected str, got int"):
        COMPOSE.encode_args([Lead("a", ["x", 1]), DAY], where=WHERE)  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"^step 'compose': result\.lead: expected Lead, got int"):
        COMPOSE.encode_result(Envelope(3), where=WHERE)  # type: ignore[arg-type]
    with pytest.raises(Failure, match=r"^step 'compose': lead\.name: Expected str, got int"):
        COMPOSE.decode_args([{"name": 1}, "2024-01-01"], where=WHERE)
    with pytest.raises(Failure, match=r"^step 'compose': result\.lead: Expected object, got int"):
        COMPOSE.decode_result({"lead": 3}, where=WHERE)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            unresolved,
            "step 'x': parameter 'ratio': cannot resolve the hint 'Fraction': name 'Fraction' is "
            "not defined (a name imported under TYPE_CHECKING, or local to a function?)",
        ),
        (
            needs_keyword,
            "step 'x': parameter 'mode' can be given by keyword alone, and arguments are "
            "positional; give it a default or make it positional",
        ),
    ],
)
def test_a_function_that_cannot_be_called_with_stored_arguments(fn: Any, message: str) -> None:
    """TypeError names the parameter."""
    with pytest.raises(TypeError) as caught:
        Signature.of(fn, skip=0, where="step 'x'")
    assert str(caught.value) == message


def test_a_callable_without_a_signature_is_refused() -> None:
    """Some objects hide it."""
    hidden = type("Hidden", (), {"__signature__": 3, "__call__": lambda self: None})
    with pytest.raises(TypeError, match=r"^step 'x': .* has no signature that can be read"):
        Signature.of(hidden(), skip=0, where="step 'x'")


def test_optional_keywords_are_left_to_their_defaults() -> None:
    """Keyword-only parameters with a default and **kwargs are no parameters of the port."""
    signature = Signature.of(has_keyword, skip=0, where="x")
    assert [one.name for one in signature.parameters] == ["a"]


def digest(*args: Any, name: str = "compose", signature: Signature = COMPOSE) -> str:
    return signature.digest(name, args)


def test_a_digest_tells_calls_apart() -> None:
    """Another name, another argument, another member: another fingerprint."""
    one = digest(Lead("a"), DAY)
    assert one == digest(Lead("a"), DAY)
    assert len(one) == 16
    others = {
        digest(Lead("a"), DAY, name="send"),
        digest(Lead("b"), DAY),
        digest(Lead("a", ["t"]), DAY),
        digest(Lead("a"), date(2024, 1, 2)),
        digest(Lead("a"), DAY, "other"),
    }
    assert len(others | {one}) == 6


def test_a_digest_leaves_defaults_out() -> None:
    """Members and trailing arguments at their default do not count, given or not."""

    @dataclass
    class Wider(Lead):
        added: int | None = None
        more: list[Lead] = field(default_factory=list)

    def wider(lead: Any, day: date, note: str = "n", extra: int = 3) -> None: ...

    signature = Signature.of(wider, skip=0, where="x")
    same = {
        digest(Lead("a"), DAY),
        digest(Lead("a"), DAY, "n"),
        digest(Lead("a", [], 0.5), DAY),
        digest(Wider("a"), DAY, signature=signature),
        digest(Wider("a", more=[]), DAY, "n", 3, signature=signature),
    }
    assert len(same) == 1
    assert digest(Wider("a", added=0), DAY, signature=signature) not in same


def test_a_digest_keeps_what_only_equals_a_default_in_python() -> None:
    """True is not 1, and an argument before one that counts keeps its place."""

    def step(a: Any = 1, b: int = 2) -> None: ...

    signature = Signature.of(step, skip=0, where="x")
    assert signature.digest("s", [True]) != signature.digest("s", [1])
    assert signature.digest("s", [1, 5]) != signature.digest("s", [5])


def test_a_digest_is_the_same_in_every_process() -> None:
    """It is stored and compared after a restart."""
    code = (
        "from iworkflow.core.signature import Signature\n"
        "def step(names: set[str], counts: dict[str, int]) -> None: ...\n"
        "s = Signature.of(step, skip=0, where='x')\n"
        "print(s.digest('step', [set('abcdef'), {'a': 1}]))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
