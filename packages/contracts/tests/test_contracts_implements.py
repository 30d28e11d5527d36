"""What `implements` refuses when the flow is wrapped and when the app is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from iworkflow.contracts import WorkflowContract, define_workflow_contract, implements
from iworkflow.core import AppDefinition

if TYPE_CHECKING:
    from iworkflow.core import Context


class Input(msgspec.Struct):
    code: str


@dataclass
class Created:
    organization_id: str


@dataclass
class Refused:
    reason: str


contract: WorkflowContract[Input, Created | Refused] = define_workflow_contract(
    name="organizationOnboarding",
    task_queue="iprofile",
    workflow_id="org-{code}",
    input=Input,
    outcomes={"created": Created, "refused": Refused},
)
wrap: Any = implements(contract)


async def both(ctx: Context, data: Input) -> Created | Refused:
    """What it is for."""
    raise AssertionError


async def one(ctx: Context, data: Input) -> Created:
    raise AssertionError


async def bare(ctx, data):  # type: ignore[no-untyped-def]
    raise AssertionError


async def more(ctx: Context, data: Input, more: int = 3) -> Created:
    raise AssertionError


@pytest.mark.parametrize("flow", [both, one, bare, more])
def test_flows_that_fit(flow: Any) -> None:
    """All outcomes or some; hints may be left out, and the context's need not resolve."""
    app = AppDefinition("iprofile", flows=[wrap(flow)])
    assert list(app.flows) == ["organizationOnboarding"]
    signature = app.flows["organizationOnboarding"].signature
    assert [parameter.hint for parameter in signature.parameters] == [Input]


async def only_context(ctx: Context) -> Created:
    raise AssertionError


async def two_inputs(ctx: Context, data: Input, more: int) -> Created:
    raise AssertionError


async def keyword(ctx: Context, *, data: Input) -> Created:
    raise AssertionError


async def other_input(ctx: Context, data: str) -> Created:
    raise AssertionError


async def other_result(ctx: Context, data: Input) -> Created | str:
    raise AssertionError


async def unresolved(ctx: Context, data: Missing) -> Created:  # type: ignore[name-defined]  # noqa: F821
    raise AssertionError


def not_async(ctx: Context, data: Input) -> Created:
    raise AssertionError


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        (only_context, "must take the context and the input: (ctx, data)"),
        (two_inputs, "must take the context and the input: (ctx, data)"),
        (keyword, "must take the context and the input: (ctx, data)"),
        (other_input, ": parameter 'data' is str, the contract's input is Input"),
        (
            other_result,
            " returns str, which is no outcome of the contract (outcomes: Created, Refused)",
        ),
        (unresolved, ": cannot resolve the hint 'Missing': name 'Missing' is not defined"),
        (not_async, " is not async; write 'async def'"),
    ],
)
def test_flows_that_do_not(flow: Any, message: str) -> None:
    """The contract, the flow and what is wrong are named."""
    with pytest.raises(TypeError) as caught:
        wrap(flow)
    assert str(caught.value).startswith(
        f"contract 'organizationOnboarding': flow {flow.__name__!r}"
    )
    assert message in str(caught.value)


def test_another_app_is_refused() -> None:
    """The contract's task queue is the app."""
    with pytest.raises(ValueError) as caught:
        AppDefinition("ioutreach", flows=[wrap(both)])
    assert str(caught.value) == (
        "contract 'organizationOnboarding': task_queue is 'iprofile', but app 'ioutreach' lists "
        "its flow; list it in the app of that name"
    )


def test_another_name_is_refused() -> None:
    """Neighbours start it by the contract's name."""
    assert AppDefinition("iprofile", flows={"organizationOnboarding": wrap(both)})
    with pytest.raises(ValueError) as caught:
        AppDefinition("iprofile", flows={"onboarding": wrap(both)})
    assert str(caught.value) == (
        "contract 'organizationOnboarding': its flow is listed as 'onboarding'; list it in a "
        "sequence, or as 'organizationOnboarding'"
    )


def test_an_engine_that_imports_anew_finds_it_by_its_qualified_name() -> None:
    """Both as a decorator and wrapped where it is listed; the flow itself is not found for it."""
    wrapped = wrap(both)
    outer, inner = wrapped.__qualname__.split(".")
    assert outer == "both"
    assert getattr(both, inner) is wrapped
    assert getattr(wrapped, inner) is wrapped
    assert wrapped.__doc__ == "What it is for."
