"""The thread that keeps a catalog fresh looks for changes only if no request has just done so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.catalog import catalog
from stead.catalog.catalog import Catalog

if TYPE_CHECKING:
    import pytest


class Counting:
    """A source that has nothing, and counts who asks."""

    def __init__(self) -> None:
        self.asked = 0

    def changes(self, _since: Any) -> Any:
        self.asked += 1
        return iter(())


def test_nobody_looks_who_has_just_been_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(catalog, "time", type("Clock", (), {"monotonic": lambda: now, "perf_counter": lambda: now}))
    source = Counting()
    fresh_catalog = Catalog(source)
    fresh_catalog.fresh()
    now = 0.75
    assert (fresh_catalog.look(), source.asked) == (0.25, 1)
    now = 1.0
    assert (fresh_catalog.look(), source.asked) == (1.0, 2)
    now = 1.5
    assert (fresh_catalog.look(), source.asked) == (0.5, 2)
