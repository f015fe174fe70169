"""A few reloads under load; `make reloads` makes 200."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.system.hostile.reloads import reloaded

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.one_database,
    pytest.mark.timeout(300),  # two workers, loaded three times
]


def test_reloads_lose_no_request(tmp_path: Path) -> None:
    load = reloaded(tmp_path, 2)
    assert load.lost == []
    assert load.new
    assert load.kept
