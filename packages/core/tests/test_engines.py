"""Engines are found by entry point; what cannot be had is told with a remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from iworkflow.core import engines, memory
from iworkflow.core.engines import DevEngine, Engine, engine, installed

Install = Callable[..., None]

MODULE = """
class _Engine:
    name = {name!r}
    def client(self, **settings): raise NotImplementedError
    def runtime(self, **settings): raise NotImplementedError
class Served(_Engine):
    def dev(self): raise NotImplementedError
engine = _Engine()
number = 7
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install engines as distributions with metadata; no others are to be seen."""

    def entry_points(*, group: str) -> metadata.EntryPoints:
        found = [
            point
            for one in metadata.distributions(path=[str(tmp_path)])
            for point in one.entry_points.select(group=group)
        ]
        return metadata.EntryPoints(found)

    monkeypatch.setattr(engines, "entry_points", entry_points)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("IWORKFLOW_ENGINE", raising=False)

    def add(name: str, *, module: str = MODULE, attribute: str = "engine") -> None:
        package = f"{name}_of_{tmp_path.name}".replace("-", "_")
        sys.modules.pop(package, None)
        (tmp_path / f"{package}.py").write_text(module.format(name=name))
        info = tmp_path / f"iworkflow_{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: iworkflow-{name}\nVersion: 1.2\n")
        lines = f"[iworkflow.engines]\n{name} = {package}:{attribute}\n"
        (info / "entry_points.txt").write_text(lines)

    return add


def _refused(name: str | None = None) -> tuple[type[Exception], str]:
    with pytest.raises((ValueError, RuntimeError)) as caught:
        engine(name)
    return caught.type, str(caught.value)


def test_by_name(install: Install) -> None:
    """A name picks among several, and gives the object of the entry point."""
    install("one")
    install("two")
    found = engine("two")
    assert found.name == "two"
    assert isinstance(found, Engine)
    assert not isinstance(found, DevEngine)


def test_a_class_is_made(install: Install) -> None:
    """An entry point may name a class; with `dev` it is a `DevEngine`."""
    install("one", attribute="Served")
    assert isinstance(engine("one"), DevEngine)


def test_memory_comes_with_core(install: Install) -> None:
    """Memory is there without metadata, by name, and without a name if there is no other."""
    assert engine() is memory.engine
    install("one")
    assert engine("memory") is memory.engine


def test_the_only_one_next_to_memory(install: Install) -> None:
    """Unset, the only engine that is installed next to memory is taken."""
    install("one")
    assert engine().name == "one"
    assert list(installed()) == ["memory", "one"]


def test_several_and_none_named(install: Install) -> None:
    """Several and none named: an error lists them and tells the three ways to name one."""
    install("two")
    install("one")
    assert _refused() == (
        RuntimeError,
        (
            "several engines are installed ('one', 'two'); name one: engine('one'), "
            '"--engine one" or IWORKFLOW_ENGINE=one'
        ),
    )


def test_the_variable_picks(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """`IWORKFLOW_ENGINE` picks, a name given goes before it, an empty one is as unset."""
    install("one")
    install("two")
    monkeypatch.setenv("IWORKFLOW_ENGINE", "two")
    assert engine().name == "two"
    assert engine("one").name == "one"
    monkeypatch.setenv("IWORKFLOW_ENGINE", "")
    assert _refused()[0] is RuntimeError


UNKNOWN = [
    ("ones", "no engine 'ones' (installed: 'memory', 'one'); did you mean 'one'?"),
    (
        "temporal",
        "no engine 'temporal' (installed: 'memory', 'one'); run \"pip install iworkflow-temporal\"",
    ),
    ("dboss", "no engine 'dboss' (installed: 'memory', 'one'); run \"pip install iworkflow-dbos\""),
    (
        "xyz",
        (
            "no engine 'xyz' (installed: 'memory', 'one'); run \"pip install iworkflow-dbos\" or "
            '"pip install iworkflow-temporal"'
        ),
    ),
]


@pytest.mark.parametrize(("name", "message"), UNKNOWN)
def test_an_unknown_engine(install: Install, name: str, message: str) -> None:
    """An unknown engine: those installed, and what is meant or the command that installs it."""
    install("one")
    assert _refused(name) == (ValueError, message)


def test_an_unknown_engine_in_the_variable(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong name in the variable is blamed on the variable."""
    install("one")
    monkeypatch.setenv("IWORKFLOW_ENGINE", "ones")
    assert _refused()[1].startswith("IWORKFLOW_ENGINE: no engine 'ones' (installed: ")


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"module": "import no_such_module_here"}, "ModuleNotFoundError: No module named 'no_such_"),
    ({"module": "raise RuntimeError('wrong core')"}, "RuntimeError: wrong core"),
    ({"attribute": "absent"}, "AttributeError: module 'bad_of_"),
    ({"attribute": "number"}, "'bad_of_"),
]


@pytest.mark.parametrize(("options", "cause"), BROKEN)
def test_a_broken_engine(install: Install, options: dict[str, Any], cause: str) -> None:
    """An engine that cannot be loaded names its package and the cause; the others work."""
    install("bad", **options)
    expected = f"engine 'bad' of iworkflow-bad 1.2 cannot be loaded: {cause}"
    for name in ("bad", None):
        kind, message = _refused(name)
        assert kind is RuntimeError
        assert message.startswith(expected)
    install("good")
    assert engine("good").name == "good"
    assert list(installed()) == ["bad", "good", "memory"]


def test_what_is_no_engine(install: Install) -> None:
    """An object that is no engine is told what it lacks."""
    install("bad", attribute="number")
    assert _refused("bad")[1].endswith("is no Engine: it needs a name, client() and runtime()")


def test_the_memory_engine_is_registered() -> None:
    """Core's own metadata names the memory engine that the fallback names."""
    points = metadata.distribution("iworkflow-core").entry_points.select(group=engines.GROUP)
    assert [(point.name, point.load()) for point in points] == [("memory", memory.engine)]
