"""Who waits for a refresh of somebody else, and what they get."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stead.catalog.catalog import Catalog
from stead.domain.errors import Unavailable
from tests.rooms.store.protocol.interleaving import outcome
from tests.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from stead.domain.changes import Changes, Moment

WAITING = 8


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
    told: list[str | None] = []
    for _ in range(WAITING):  # a pool would wait for ever for those who hang
        threading.Thread(target=lambda: told.append(outcome(catalog.fresh)), daemon=True).start()
    wait_until(lambda: numbers.given > WAITING, "not all have come, or no refresh has begun")
    source.fail.set()
    wait_until(lambda: len(told) == WAITING, lambda: f"{len(told)} of {WAITING} were told")
    assert told == [Unavailable.__name__] * WAITING
    assert source.asked <= 2
