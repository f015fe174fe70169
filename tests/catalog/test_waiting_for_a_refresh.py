"""Who waits for a refresh of somebody else, and what they get."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from stead.catalog.catalog import Catalog
from stead.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.domain.changes import Changes, Moment

WAITING = 8
PATIENCE_SECONDS = 60.0


class Hanging:
    """A source that says nothing until it is told to fail."""

    def __init__(self) -> None:
        self.asked = 0
        self.fail = threading.Event()

    def changes(self, _since: Moment | None) -> Iterator[Changes]:
        self.asked += 1
        assert self.fail.wait(PATIENCE_SECONDS)
        raise Unavailable("it hangs")


class Numbers:
    """What the catalog numbers arrivals and refreshes with; says how many it gave."""

    def __init__(self) -> None:
        self.given = 0
        self._giving = threading.Lock()

    def __next__(self) -> int:
        with self._giving:
            self.given += 1
            return self.given


def test_a_source_that_hangs_is_waited_for_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    source, numbers = Hanging(), Numbers()
    catalog = Catalog(source)
    monkeypatch.setattr(catalog, "_order", numbers)
    with ThreadPoolExecutor(WAITING) as threads:
        told = [threads.submit(catalog.fresh) for _ in range(WAITING)]
        until = time.monotonic() + PATIENCE_SECONDS
        while numbers.given < WAITING + 1:  # all have come, and one refresh has begun
            assert time.monotonic() < until
            time.sleep(0.01)
        source.fail.set()
        for one in told:
            with pytest.raises(Unavailable, match="it hangs"):
                one.result()
    assert source.asked <= 2
