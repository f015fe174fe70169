"""Fixtures for pytest. The plugin is loaded wherever Stead is installed; Stead itself is imported by the fixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.testing.serving import Placement, PlacementSite


@pytest.fixture
def placement() -> Iterator[Placement]:
    """The URL of an empty Placement server in this process, with ``faults`` and ``site()``."""
    from stead.testing.serving import placement

    with placement() as url:
        yield url


@pytest.fixture
def placement_site() -> Iterator[PlacementSite]:
    """An empty site in this process, without HTTP, with ``faults``."""
    from stead.testing.serving import site

    with site() as made:
        yield made


@pytest.fixture
def placement_uuids() -> Iterator[None]:
    """Random uuids that are the same in every run. Name it before the other fixtures."""
    from stead.testing.uuids import deterministic_uuids

    with deterministic_uuids():
        yield
