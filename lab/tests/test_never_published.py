"""The lab is a tool of this repository."""

from __future__ import annotations

from importlib.metadata import metadata


def test_the_package_index_refuses_the_lab() -> None:
    """An index refuses a package with a classifier that begins with `Private`."""
    assert "Private :: Do Not Upload" in (metadata("iworkflow-lab").get_all("Classifier") or [])
