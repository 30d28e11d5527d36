"""attrs classes and pydantic models, where they are installed."""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest

from iworkflow.core.codec import check_hint, decode, dumps, encode, encode_terse, loads
from iworkflow.core.errors import Failure


def _over_the_wire(value: Any, hint: Any) -> Any:
    check_hint(hint, where="t")
    return decode(loads(dumps(encode(value, hint, where="t"))), hint, where="t")


def test_an_attrs_class_reads_back_equal() -> None:
    """Members by their attribute names, private ones and defaults included."""
    attrs = pytest.importorskip("attrs")

    @attrs.define
    class Lead:
        name: str
        _secret: int = 3
        born: date | None = None
        tags: list[str] = attrs.Factory(list)

    lead = Lead("a", 4, date(2024, 1, 1), ["x"])
    assert _over_the_wire(lead, Lead) == lead
    assert _over_the_wire([lead], list[Lead | None]) == [lead]
    assert encode_terse(Lead("a"), Lead, where="t") == {"name": "a"}


def test_an_attrs_default_that_takes_self_is_refused() -> None:
    """msgspec cannot build such a default."""
    attrs = pytest.importorskip("attrs")

    @attrs.define
    class Lead:
        name: str
        short: str = attrs.Factory(lambda self: self.name[:1], takes_self=True)

    with pytest.raises(TypeError, match=r"Lead: the default of Lead\.short takes self$"):
        check_hint(Lead, where="p")


@pytest.fixture
def models() -> Any:
    pydantic = pytest.importorskip("pydantic")

    class Profile(pydantic.BaseModel):
        name: str
        born: date
        tags: set[str] = pydantic.Field(default_factory=set)
        raw: bytes = b""
        first: str = pydantic.Field("x", alias="firstName")

    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(strict=True)
        born: date
        pair: tuple[int, str]

    class Wide(Profile):
        extra: int

    class Skewed(pydantic.BaseModel):
        name: str = pydantic.Field("x", serialization_alias="other")

    class Holder(pydantic.BaseModel):
        inner: Profile

    return Models(Profile, Strict, Wide, Skewed, Holder)


@dataclass
class Models:
    profile: Callable[..., Any]
    strict: Callable[..., Any]
    wide: Callable[..., Any]
    skewed: Callable[..., Any]
    holder: Callable[..., Any]


def test_a_pydantic_model_reads_back_equal(models: Any) -> None:
    """Alone, optional and in containers; by its aliases; strict ones too."""
    profile = models.profile(name="a", born=date(2024, 1, 1), tags={"b", "a"}, firstName="y")
    assert _over_the_wire(profile, models.profile) == profile
    assert _over_the_wire([profile, None], list[models.profile | None]) == [profile, None]
    assert _over_the_wire({1: profile}, dict[int, models.profile]) == {1: profile}
    strict = models.strict(born=date(2024, 1, 1), pair=(1, "a"))
    assert _over_the_wire(strict, models.strict) == strict


def test_bytes_that_a_pydantic_model_cannot_write_are_refused(models: Any) -> None:
    """pydantic writes bytes as text: what is none is refused with its path, unless told how."""
    given = {"name": "a", "born": date(2024, 1, 1)}
    text = models.profile(**given, raw=b"text")
    assert _over_the_wire(text, models.profile) == text
    with pytest.raises(TypeError, match=r"^t\[0\]: pydantic cannot write this Profile: 'utf-8'"):
        encode([models.profile(**given, raw=b"\x80")], list[models.profile], where="t")


def test_the_sets_of_a_pydantic_model_are_sorted(models: Any) -> None:
    """The JSON does not depend on the order of a set."""
    tags = [f"t{n}" for n in range(20)]
    random.shuffle(tags)
    encoded: Any = encode(
        models.holder(inner=models.profile(name="a", born=date(2024, 1, 1), tags=set(tags))),
        where="t",
    )
    assert encoded["inner"]["tags"] == sorted(tags)


def test_a_pydantic_model_that_loses_something_is_refused(models: Any) -> None:
    """A subclass of the hint, one inside another model, and aliases that do not agree."""
    wide = models.wide(name="a", born=date(2024, 1, 1), extra=3)
    with pytest.raises(TypeError, match=r"^t: expected Profile, got its subclass Wide"):
        encode(wide, models.profile, where="t")
    with pytest.raises(TypeError, match=r"^t: this Holder does not read back equal"):
        encode(models.holder(inner=wide), models.holder, where="t")
    with pytest.raises(TypeError, match=r"^t: this Skewed does not read back equal"):
        encode(models.skewed(name="y"), models.skewed, where="t")


def test_a_stored_value_that_does_not_fit_a_pydantic_model(models: Any) -> None:
    """Failure `DecodeError` names the place; pydantic's own error names the rest."""
    with pytest.raises(Failure, match="name") as caught:
        decode([{"born": "2024-01-01"}], list[models.profile], where="result")
    assert caught.value.type == "DecodeError"
    assert caught.value.message.startswith("result[0]: 1 validation error for Profile")


def test_a_union_of_a_pydantic_model_and_another_class_is_refused(models: Any) -> None:
    """JSON does not tell them apart."""
    for other in (dict, models.strict):
        with pytest.raises(TypeError, match="codec cannot read back"):
            check_hint(models.profile | other, where="p")


def test_pydantic_is_never_imported_by_the_codec() -> None:
    """A hint that is no model does not make the codec look for pydantic."""
    before = "pydantic" in sys.modules
    assert _over_the_wire([1], list[int]) == [1]
    assert ("pydantic" in sys.modules) == before
