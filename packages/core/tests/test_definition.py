# ruff: noqa: ISC004
"""An app checks itself when it is built, and says what is wrong."""

import functools
import pickle
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import FrozenInstanceError, dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from iworkflow.core.codec import ANY
from iworkflow.core.definition import AppDefinition, Target

if TYPE_CHECKING:
    from fractions import Fraction

    from iworkflow.core.context import Context


@dataclass
class Lead:
    name: str


async def outreach(ctx: "Context", lead: Lead) -> date:
    return date(2024, 1, 1)


async def no_hints(ctx, lead=None):  # type: ignore[no-untyped-def]
    return lead


async def takes_anything(ctx: Any) -> None: ...


async def compose(lead: Lead) -> str:
    return lead.name


def remind(lead: Lead) -> str:
    return lead.name


def not_async(ctx: "Context") -> None: ...


async def no_context() -> None: ...


async def value_first(lead: Lead) -> None: ...


async def streaming(ctx: "Context") -> AsyncIterator[int]:
    yield 1


async def bad_flow_hint(ctx: "Context", items: deque[int]) -> None: ...


async def bad_flow_result(ctx: "Context") -> date | str:
    return ""


async def absent_flow_hint(ctx: "Context", ratio: "Fraction") -> None: ...


def bad_step_hint(lead: Lead, when: date | str) -> None: ...


def generator() -> Iterator[int]:
    yield 1


def keyword_step(lead: Lead, *, mode: str) -> None: ...


class Mailer:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def send(self, lead: Lead) -> str:
        return self.folder + lead.name

    async def __call__(self, lead: Lead) -> str:
        return lead.name


def make(**options: Any) -> AppDefinition:
    values: dict[str, Any] = {
        "app": "ioutreach",
        "flows": [outreach],
        "activities": [compose, remind],
        "pools": {"paced": 2},
        "patches": ["send-twice"],
    }
    values.update(options)
    return AppDefinition(values.pop("app"), **values)


def test_a_definition_holds_what_it_was_given() -> None:
    """Functions by their own names, with their signatures; limits and patches."""
    app = make(max_concurrent_steps=20)
    assert list(app.flows) == ["outreach"]
    assert app.flows["outreach"].fn is outreach
    assert [one.hint for one in app.flows["outreach"].signature.parameters] == [Lead]
    assert app.flows["outreach"].signature.result is date
    assert {name: one.is_async for name, one in app.activities.items()} == {
        "compose": True,
        "remind": False,
    }
    assert dict(app.pools) == {"paced": 2}
    assert app.patches == {"send-twice"}
    assert app.max_concurrent_steps == 20
    assert AppDefinition("ioutreach", flows=[outreach]).max_concurrent_steps == 100


def test_a_definition_does_not_change() -> None:
    """Neither by assignment nor through what it was built from."""
    pools = {"paced": 2}
    app = make(pools=pools)
    pools["more"] = 1
    assert dict(app.pools) == {"paced": 2}
    with pytest.raises(FrozenInstanceError):
        app.max_concurrent_steps = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        app.flows["x"] = app.flows["outreach"]  # type: ignore[index]


def test_a_mapping_gives_names_to_callables_of_any_sort() -> None:
    """Bound methods, partials, callable objects and lambdas are steps if they are named."""
    mailer = Mailer("f")
    app = make(
        flows={"out": outreach, "bare": no_hints, "any": takes_anything},
        activities={
            "send": mailer.send,
            "partial": functools.partial(compose),
            "object": mailer,
            "lambda": lambda lead: lead,
        },
    )
    assert {name: one.is_async for name, one in app.activities.items()} == {
        "send": False,
        "partial": True,
        "object": True,
        "lambda": False,
    }
    assert app.activity(mailer.send).name == "send"
    assert app.flow(outreach).name == "out"


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    *(
        (
            {"app": name},
            ValueError,
            f"app name {name!r}: a name has 3 to 256 characters of a-z, 0-9, '-' and '_'",
        )
        for name in ("", "ab", "IOutreach", "i outreach", "a" * 257, "out.reach", "abc\n", None)
    ),
    ({"flows": [not_async]}, TypeError, "flow 'not_async' is not async; write 'async def'"),
    (
        {"flows": [streaming]},
        TypeError,
        "flow 'streaming' is a generator; return a list instead of yielding",
    ),
    (
        {"flows": [no_context]},
        TypeError,
        "flow 'no_context' takes no context; its first parameter must be 'ctx: Context'",
    ),
    (
        {"flows": [value_first]},
        TypeError,
        "flow 'value_first': its first parameter 'lead' is a value; it must be 'ctx: Context'",
    ),
    (
        {"flows": [outreach, outreach]},
        ValueError,
        "app 'ioutreach': two flows are named 'outreach'; name them with a mapping",
    ),
    (
        {"activities": [remind, remind]},
        ValueError,
        "app 'ioutreach': two steps are named 'remind'; name them with a mapping",
    ),
    (
        {"flows": {"": outreach}},
        ValueError,
        "app 'ioutreach': the name of a flow must be a non-empty string, not ''",
    ),
    (
        {"activities": {3: remind}},
        ValueError,
        "app 'ioutreach': the name of a step must be a non-empty string, not 3",
    ),
    (
        {"activities": {"a\0": remind}},
        ValueError,
        "app 'ioutreach': the name of a step must be text without NUL and lone surrogates, "
        "not 'a\\x00'",
    ),
    (
        {"activities": {"x" * 256: remind}},
        ValueError,
        "app 'ioutreach': the name of a step must have at most 255 bytes, not 256 "
        f"('{'x' * 60}'...); shorten it, or take a hash of it",
    ),
    (
        {"activities": {"x": 3}},
        TypeError,
        "app 'ioutreach': step 'x' is not callable: 3",
    ),
    (
        {"activities": remind},
        TypeError,
        f"app 'ioutreach': steps must be a mapping or a sequence, not {remind!r}",
    ),
    (
        {"flows": [bad_flow_hint]},
        TypeError,
        "flow 'bad_flow_hint': parameter 'items': the codec cannot read back deque[int]: "
        "deque[int] is no type that it knows",
    ),
    (
        {"flows": [bad_flow_result]},
        TypeError,
        "flow 'bad_flow_result': result: the codec cannot read back date | str: "
        "date and str are all strings in JSON",
    ),
    (
        {"flows": [absent_flow_hint]},
        TypeError,
        "flow 'absent_flow_hint': parameter 'ratio': cannot resolve the hint 'Fraction': "
        "name 'Fraction' is not defined "
        "(a name imported under TYPE_CHECKING, or local to a function?)",
    ),
    (
        {"activities": [bad_step_hint]},
        TypeError,
        "step 'bad_step_hint': parameter 'when': the codec cannot read back date | str: "
        "date and str are all strings in JSON",
    ),
    (
        {"activities": [generator]},
        TypeError,
        "step 'generator' is a generator; return a list instead of yielding",
    ),
    (
        {"activities": [keyword_step]},
        TypeError,
        "step 'keyword_step': parameter 'mode' can be given by keyword alone, and arguments are "
        "positional; give it a default or make it positional",
    ),
    (
        {"pools": {"paced": 0}},
        ValueError,
        "app 'ioutreach': pool 'paced' must be an integer of 1 or more, not 0",
    ),
    (
        {"pools": {"paced": True}},
        ValueError,
        "app 'ioutreach': pool 'paced' must be an integer of 1 or more, not True",
    ),
    (
        {"pools": {"": 1}},
        ValueError,
        "app 'ioutreach': the name of a pool must be a non-empty string, not ''",
    ),
    (
        {"patches": [""]},
        ValueError,
        "app 'ioutreach': the id of a patch must be a non-empty string, not ''",
    ),
    (
        {"patches": ["a", "b", "a"]},
        ValueError,
        "app 'ioutreach': patch 'a' is given twice",
    ),
    (
        {"patches": "send-twice"},
        TypeError,
        "app 'ioutreach': patches must be a sequence of ids, not the string 'send-twice'",
    ),
    (
        {"max_concurrent_steps": 0},
        ValueError,
        "app 'ioutreach': max_concurrent_steps must be an integer of 1 or more, not 0",
    ),
    (
        {"max_concurrent_steps": 1.5},
        ValueError,
        "app 'ioutreach': max_concurrent_steps must be an integer of 1 or more, not 1.5",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED)
def test_a_definition_that_is_wrong_is_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The message names the app, the flow or the step, and what is wrong with it."""
    with pytest.raises(error) as caught:
        make(**options)
    assert str(caught.value) == message


@pytest.mark.parametrize("nameless", [lambda ctx: ctx, functools.partial(compose), Mailer("f")])
def test_a_callable_without_a_name_needs_a_mapping(nameless: Any) -> None:
    """A lambda, a partial and an object have no name of their own."""
    with pytest.raises(ValueError, match=r"^app 'ioutreach': the step .* has no name; give one"):
        make(activities=[nameless])


def test_an_unknown_flow_or_step_is_named_with_those_known() -> None:
    """ValueError lists what the app has, and the one that was probably meant."""
    app = make()
    with pytest.raises(ValueError) as step:
        app.activity("compse")
    assert str(step.value) == (
        "no step 'compse' in app 'ioutreach' (steps: 'compose', 'remind'); did you mean 'compose'?"
    )
    with pytest.raises(ValueError) as flow:
        app.flow(no_hints)
    assert str(flow.value) == "no flow 'no_hints' in app 'ioutreach' (flows: 'outreach')"
    with pytest.raises(ValueError) as none:
        make(activities=[]).activity("zzz")
    assert str(none.value) == "no step 'zzz' in app 'ioutreach' (steps: none)"


def test_a_target_of_a_flow_carries_its_result_and_signature() -> None:
    """By the function or its name; the signature checks the arguments of a start."""
    app = make()
    for flow in (outreach, "outreach"):
        target: Target[Any] = app.target(flow)  # type: ignore[arg-type]
        assert (target.app, target.flow, target.result_type) == ("ioutreach", "outreach", date)
        assert target.signature is app.flows["outreach"].signature
    with pytest.raises(ValueError, match=r"no flow 'x' in app 'ioutreach'"):
        app.target("x")


def test_a_target_checks_its_names() -> None:
    """The same rules as for an app."""
    assert Target("iprofile", "enrich").result_type is ANY
    assert Target("iprofile", "enrich") == Target("iprofile", "enrich")
    assert Target[str]("iprofile", "enrich") == Target("iprofile", "enrich")
    assert pickle.loads(pickle.dumps(Target("iprofile", "enrich"))) == Target("iprofile", "enrich")
    with pytest.raises(ValueError, match=r"^app name 'A': a name has 3 to 256"):
        Target("A", "enrich")
    with pytest.raises(ValueError, match=r"^flow of target 'iprofile' must be a non-empty string"):
        Target("iprofile", "")
    with pytest.raises(TypeError, match=r"^target iprofile/enrich: result_type: the codec cannot"):
        Target("iprofile", "enrich", deque)


def test_a_flow_is_told_where_it_is_registered() -> None:
    """A flow's own check is called with the app and its name, and what it raises refuses both."""
    seen: list[tuple[str, str]] = []

    async def flow(ctx: "Context") -> None: ...

    def registered(app: str, name: str) -> None:
        seen.append((app, name))
        if app != "right":
            raise ValueError(f"not in {app}")

    flow.__iworkflow_registered__ = registered  # type: ignore[attr-defined]
    AppDefinition("right", flows={"named": flow})
    assert seen == [("right", "named")]
    with pytest.raises(ValueError, match="not in wrong"):
        AppDefinition("wrong", flows=[flow])


def test_an_app_over_other_copies_of_its_functions() -> None:
    """Functions that were loaded anew take their place; the rest of the app stays as it was."""

    async def copy(ctx: "Context", lead: Lead) -> date:
        return date(2025, 1, 1)

    app = AppDefinition("bound", flows=[outreach], activities=[compose], pools={"paced": 2})
    bound = app.rebound(lambda fn: copy if fn is outreach else fn)
    assert bound.flow(copy).name == "outreach"
    assert bound.flows["outreach"].fn is copy
    assert bound.activities["compose"] is app.activities["compose"]
    assert (bound.app, bound.pools) == (app.app, app.pools)
    assert app.flows["outreach"].fn is outreach
