"""What the package offers, and every sort of class that a contract may be made of."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import attrs
import msgspec
import pydantic
import pytest

import iworkflow.contracts
from iworkflow.contracts import (
    ContractContext,
    Message,
    State,
    WorkflowContract,
    child_contract,
    define_workflow_contract,
    implements,
    start_contract,
)
from iworkflow.core import AppDefinition, Context, Failure
from iworkflow.core.testing import FlowTest


def test_the_public_names_are_listed() -> None:
    """`__all__` is what a user imports: all there, in order, and each said what it is for."""
    names = iworkflow.contracts.__all__
    constants = [name for name in names if name.isupper()]
    rest = sorted(name for name in names if name not in constants)
    classes = [name for name in rest if name[0].isupper()]
    functions = [name for name in rest if name[0].islower()]
    assert names == [*sorted(constants), *classes, *functions]
    for name in (*classes, *functions):
        assert getattr(iworkflow.contracts, name).__doc__


def test_core_knows_nothing_of_contracts() -> None:
    """Core alone imports none of it, and contracts no engine."""
    code = (
        "import sys, iworkflow.core, iworkflow.core.memory\n"
        "assert not [n for n in sys.modules if n.startswith('iworkflow.contracts')]\n"
        "import iworkflow.contracts\n"
        "import threading\n"
        "assert threading.active_count() == 1\n"
        "assert not [n for n in sys.modules if n.startswith(('iworkflow.dbos', 'temporalio'))]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class AStruct(msgspec.Struct, frozen=True):
    code: str
    kind: Literal["struct"] = "struct"


class ATagged(msgspec.Struct, frozen=True, tag="tagged", tag_field="kind"):
    code: str


@dataclass(frozen=True)
class ADataclass:
    code: str
    kind: Literal["dataclass"] = "dataclass"


class ATypedDict(TypedDict):
    code: str
    kind: Literal["typeddict"]


@attrs.frozen
class AnAttrs:
    code: str
    kind: Literal["attrs"] = "attrs"


class AModel(pydantic.BaseModel):
    code: str = pydantic.Field(alias="theCode")
    kind: Literal["model"] = "model"


SORTS: dict[str, tuple[Any, Any]] = {
    "struct": (AStruct, AStruct("1")),
    "tagged": (ATagged, ATagged("1")),
    "dataclass": (ADataclass, ADataclass("1")),
    "typeddict": (ATypedDict, {"code": "1", "kind": "typeddict"}),
    "attrs": (AnAttrs, AnAttrs("1")),
    "model": (AModel, AModel(theCode="1")),
}


@pytest.mark.parametrize("sort", SORTS)
async def test_every_sort_of_class(sort: str) -> None:
    """As input, as one outcome among those of all the other sorts, as signal and as query."""
    hint, value = SORTS[sort]
    field = "theCode" if sort == "model" else "code"
    contract: WorkflowContract[Any, Any] = define_workflow_contract(
        name="sorts",
        task_queue="sorts",
        workflow_id=f"x-{{{field}}}",
        input=hint,
        outcomes={name: cls for name, (cls, _) in SORTS.items()},
        states={"one": State(list(SORTS))},
        signals={"go": Message("go on", hint)},
        queries={"seen": Message("what was seen", hint)},
    )

    async def flow(ctx: ContractContext, data: Any) -> Any:
        await ctx.set_state("state", "one")
        heard = await ctx.recv(contract.signals["go"])
        assert type(data) is type(heard) is type(value)
        await ctx.set_state(contract.queries["seen"], heard)
        return data

    async def parent(ctx: Context) -> bool:
        return bool(await child_contract(ctx, contract, value) == value)

    apps = (
        AppDefinition("sorts", flows=[implements(contract)(flow)]),
        AppDefinition("parents", flows=[parent]),
    )
    async with FlowTest(*apps) as t:
        handle = await start_contract(t.client, contract, value)
        assert handle.id == "x-1"
        await handle.signal(contract.signals["go"], value)
        assert await handle.result() == value
        assert await handle.query(contract.queries["seen"]) == value
        assert await (await t.start(parent)).result() is True


def test_a_model_that_lacks_its_id_field() -> None:
    """pydantic's own attributes are looked at, the alias names the field."""
    contract: WorkflowContract[AModel, AStruct] = define_workflow_contract(
        name="sorts",
        task_queue="sorts",
        workflow_id="x-{theCode}",
        input=AModel,
        outcomes={"struct": AStruct},
    )
    with pytest.raises(Failure, match="field 'theCode' is blank"):
        contract.workflow_id(AModel(theCode=" "))
