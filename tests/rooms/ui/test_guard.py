"""To which names of this host the web interface answers. `tests/system/ui` checks the refusals."""

from __future__ import annotations

import pytest

from stead.ui.sessions import is_known_host


@pytest.mark.parametrize(
    "header", ["127.0.0.1:8778", "localhost", "[::1]:8778", "placement.example:443", "a.localhost"]
)
def test_a_known_host_is_accepted(header: str) -> None:
    assert is_known_host(header, frozenset({"placement.example"}))
