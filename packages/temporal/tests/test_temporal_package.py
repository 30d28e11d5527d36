"""The Temporal package holds its place: it imports, and says that the adapter is not in it."""

from __future__ import annotations

import importlib

import pytest

import iworkflow.temporal


def test_a_name_of_the_adapter_is_refused_with_the_way_out() -> None:
    """Asking for the client says that this release has none, and what to use instead."""
    with pytest.raises(ImportError) as caught:
        importlib.import_module("iworkflow.temporal").TemporalClient  # noqa: B018
    assert str(caught.value) == (
        "iworkflow-temporal 0.4.0 has no 'TemporalClient': the Temporal adapter is not in this "
        'release; use engine("memory") or iworkflow-dbos until it is'
    )


def test_a_private_name_is_plainly_missing() -> None:
    """What tools probe for (`hasattr`) is answered as by any module."""
    assert not hasattr(iworkflow.temporal, "_private")
