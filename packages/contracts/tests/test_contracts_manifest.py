"""The manifest says what stands on the wire, in a format of its own version and schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from uuid import UUID

import attrs
import jsonschema
import msgspec
import pydantic
import pytest

from iworkflow.contracts import (
    Message,
    State,
    WorkflowContract,
    define_workflow_contract,
)
from iworkflow.contracts.manifest import (
    MANIFEST_VERSION,
    ManifestError,
    manifest_of,
    manifest_schema,
    manifest_text,
    read_manifest,
    read_manifests,
)
from iworkflow.contracts.schemas import Schemas
from iworkflow.core.codec import dumps, encode, loads

VALIDATOR = jsonschema.Draft202012Validator

T = TypeVar("T")


class Colour(Enum):
    """The colours that there are."""

    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: int = 0


class Part(TypedDict):
    name: str
    note: NotRequired[str]


@dataclass
class Page(Generic[T]):
    items: list[T]
    more: bool = False


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Tree(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A tree of trees."""

    leaf_count: int
    branches: list[Tree] = []


class Row(msgspec.Struct, array_like=True):
    first: str
    second: int = 3


@attrs.define
class Attrs:
    name: str
    tags: list[str] = attrs.Factory(list)


class Inner(pydantic.BaseModel):
    deep: int


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(alias="theName")
    inner: Inner
    maybe: Inner | None = None


@dataclass
class Everything:
    """One of each.

    With a second paragraph.
    """

    text: str
    whole: int
    ratio: float
    flag: bool
    nothing: None
    amount: Decimal
    moment: datetime
    day: date
    clock: time
    span: timedelta
    key: UUID
    raw: bytes
    colour: Colour
    level: Level
    point: Point
    part: Part
    page: Page[int]
    texts: Page[str]
    pet: Cat | Dog
    tree: Tree
    row: Row
    attr: Attrs
    model: Model
    pair: tuple[int, str]
    many: tuple[int, ...]
    unique: set[int]
    by_text: dict[str, int]
    by_number: dict[int, float]
    by_colour: dict[Colour, int]
    anything: Any
    plain: list[Any]
    maybe: int | str | None
    word: Literal["a", "b"]
    yes: Literal[True]
    bounded: Annotated[int, msgspec.Meta(ge=1, lt=9, description="from 1 to 8", examples=[3])]
    short: Annotated[str, msgspec.Meta(min_length=1, max_length=3, pattern="^[a-z]*$")]
    few: Annotated[list[int], msgspec.Meta(max_length=2)]
    fallback: str = 'with "quotes"'
    empty: list[int] = field(default_factory=list)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    unset: int | msgspec.UnsetType = msgspec.UNSET


def everything(**changes: Any) -> Everything:
    """One of each, with some of them changed."""
    values: dict[str, Any] = {
        "text": "äöü",
        "whole": 7,
        "ratio": 0.5,
        "flag": True,
        "nothing": None,
        "amount": Decimal("1.50"),
        "moment": datetime(2025, 1, 31, 12, tzinfo=UTC),
        "day": date(2025, 1, 31),
        "clock": time(12, 30, tzinfo=UTC),
        "span": timedelta(days=1, seconds=3),
        "key": UUID(int=7),
        "raw": b"\0\xff",
        "colour": Colour.RED,
        "level": Level.HIGH,
        "point": Point(1),
        "part": {"name": "x"},
        "page": Page([1, 2]),
        "texts": Page(["a"], more=True),
        "pet": Dog("rex"),
        "tree": Tree(1, [Tree(2)]),
        "row": Row("a"),
        "attr": Attrs("a", ["t"]),
        "model": Model(theName="m", inner=Inner(deep=1)),
        "pair": (1, "a"),
        "many": (1, 2, 3),
        "unique": {2, 1},
        "by_text": {"a": 1},
        "by_number": {1: 0.5},
        "by_colour": {Colour.BLUE: 1},
        "anything": {"x": [1, None]},
        "plain": [1, "a"],
        "maybe": None,
        "word": "b",
        "yes": True,
        "bounded": 8,
        "short": "abc",
        "few": [1, 2],
    }
    return Everything(**{**values, **changes})


def contract() -> WorkflowContract[Any, Any]:
    return define_workflow_contract(
        name="everything",
        task_queue="iprofile",
        workflow_id="x-{text}-{whole}",
        input=Everything,
        outcomes={"tree": Tree, "attr": Attrs, "model": Model},
        states={"one": State(next=["tree", "attr", "model"], description="the only one")},
        signals={"page": Message("a page", Page[Part]), "colour": Message("", Colour)},
        queries={"pets": Message("all of them", dict[str, Cat | Dog])},
        description='Has "everything" in it',
    )


def checked(hint: Any) -> Any:
    """The validator of a hint's schema."""
    schemas = Schemas()
    schema = {**schemas.of(hint), "$defs": schemas.definitions}
    VALIDATOR.check_schema(schema)
    return VALIDATOR(schema)


def test_a_manifest_keeps_to_its_schema() -> None:
    """The schema is JSON Schema 2020-12, and so is every schema in a manifest."""
    VALIDATOR.check_schema(manifest_schema())
    manifest = json.loads(manifest_text(manifest_of(contract())))
    VALIDATOR(manifest_schema()).validate(manifest)
    assert manifest["manifestVersion"] == MANIFEST_VERSION == 1
    assert manifest["$generator"] == "iworkflow-contracts"
    bad = {**manifest, "states": {"one": {"next": []}}, "more": 1}
    assert len(list(VALIDATOR(manifest_schema()).iter_errors(bad))) == 2


def test_a_schema_takes_what_the_codec_writes() -> None:
    """For every sort of type that the codec knows."""
    written = loads(dumps(encode(everything(), Everything, where="t")))
    checked(Everything).validate(written)


@pytest.mark.parametrize(
    ("member", "wrong"),
    [
        ("text", 1),
        ("whole", 1.5),
        ("whole", "1"),
        ("ratio", "1"),
        ("flag", 1),
        ("nothing", 0),
        ("amount", 1),
        ("raw", 1),
        ("colour", "green"),
        ("level", 3),
        ("point", [1, 2, 3]),
        ("point", []),
        ("part", {}),
        ("part", {"name": "x", "note": 1}),
        ("page", {"items": ["a"]}),
        ("texts", {"items": [1]}),
        ("pet", {"name": "rex"}),
        ("pet", {"type": "Cat", "name": "rex"}),
        ("tree", {"leafCount": 1, "more": 1}),
        ("tree", {"leafCount": 1, "branches": [{"leaf_count": 2}]}),
        ("row", [1]),
        ("attr", {"tags": []}),
        ("model", {"name": "m", "inner": {"deep": 1}}),
        ("model", {"theName": "m", "inner": {}}),
        ("pair", [1]),
        ("pair", ["a", 1]),
        ("many", ["a"]),
        ("unique", [1, 1]),
        ("by_text", {"a": "b"}),
        ("by_number", {"a": 1.0}),
        ("by_colour", {"green": 1}),
        ("maybe", 0.5),
        ("word", "c"),
        ("yes", False),
        ("bounded", 0),
        ("bounded", 9),
        ("short", ""),
        ("short", "abcd"),
        ("short", "A"),
        ("few", [1, 2, 3]),
    ],
)
def test_a_schema_refuses_what_the_codec_does_not_read(member: str, wrong: Any) -> None:
    """A neighbour that keeps to the schema is understood."""
    written: Any = loads(dumps(encode(everything(), Everything, where="t")))
    errors = list(checked(Everything).iter_errors({**written, member: wrong}))
    assert [str(error.absolute_path[0]) for error in errors] == [member] * len(errors)
    assert errors


def test_defaults_and_descriptions_are_told() -> None:
    """A default that is the same everywhere; text that a person wrote; none that is generated."""
    schemas = Schemas()
    schemas.of(Everything)
    found = schemas.definitions
    members = found["Everything"]["properties"]
    assert members["fallback"]["default"] == 'with "quotes"'
    assert members["empty"]["default"] == []
    assert "default" not in members["now"]
    assert "now" not in found["Everything"]["required"]
    assert members["bounded"]["description"] == "from 1 to 8"
    assert found["Everything"]["description"] == "One of each.\n\nWith a second paragraph."
    assert found["Colour"]["description"] == "The colours that there are."
    assert "description" not in found["Page_int_"]
    assert set(found) >= {"Page_int_", "Page_str_", "Inner", "Tree", "Cat", "Dog"}


def test_two_classes_of_one_name_are_two_definitions() -> None:
    """The second gets a number."""

    def another() -> Any:
        class Colour(Inner):
            pass

        return Colour

    schemas = Schemas()
    assert schemas.of(Colour) == {"$ref": "#/$defs/Colour"}
    assert schemas.of(another()) == {"$ref": "#/$defs/Colour_2"}
    assert schemas.of(Colour) == {"$ref": "#/$defs/Colour"}


class Leaf(pydantic.BaseModel):
    branches: list[Leaf] = []
    inner: Inner | None = None


@dataclass
class Both:
    leaf: Leaf
    model: Model
    other: Other


def _other() -> Any:
    @dataclass
    class Inner:
        text: str

    return Inner


Other = _other()


def test_models_that_contain_themselves_or_share_a_name() -> None:
    """pydantic's definitions stand next to ours, each under a name of its own."""
    good = {
        "leaf": {"branches": [{"branches": [], "inner": {"deep": 1}}], "inner": None},
        "model": {"theName": "m", "inner": {"deep": 1}},
        "other": {"text": "x"},
    }
    validator = checked(Both)
    validator.validate(good)
    for wrong in (
        {**good, "leaf": {"branches": [{"branches": 1}]}},
        {**good, "model": {"theName": "m", "inner": {"text": "x"}}},
        {**good, "other": {"deep": 1}},
    ):
        assert list(validator.iter_errors(wrong))


def test_the_text_is_the_same_in_every_process(tmp_path: Path) -> None:
    """Whatever the hash seed."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_contracts_manifest import *\n"
        "sys.stdout.buffer.write(manifest_text(manifest_of(contract())).encode())"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert texts == {manifest_text(manifest_of(contract())).encode()}


def test_manifests_are_read_back(tmp_path: Path) -> None:
    """By the name of the contract; files without the mark are left alone."""
    (tmp_path / "a.json").write_text(manifest_text(manifest_of(contract())))
    (tmp_path / "b.json").write_text("{}")
    (tmp_path / "c.json").write_text("no json")
    assert list(read_manifests(tmp_path)) == ["everything"]
    assert read_manifests(tmp_path)["everything"] == json.loads(
        manifest_text(manifest_of(contract()))
    )


def test_what_is_no_manifest_is_named(tmp_path: Path) -> None:
    """The file, and what is wrong with it."""
    path = tmp_path / "a.json"
    with pytest.raises(ManifestError, match="holds no manifest; write them with --out"):
        read_manifests(tmp_path)
    with pytest.raises(ManifestError, match="is no folder of manifests"):
        read_manifests(path)
    path.write_text("{")
    with pytest.raises(ManifestError, match=r"a\.json is no JSON: "):
        read_manifest(path)
    path.write_text("[]")
    with pytest.raises(ManifestError, match='it has no "\\$generator": "iworkflow-contracts"'):
        read_manifest(path)
    path.write_text(manifest_text({**manifest_of(contract()), "manifestVersion": 2}))
    with pytest.raises(ManifestError, match="of version 2, and this package reads version 1"):
        read_manifests(tmp_path)
