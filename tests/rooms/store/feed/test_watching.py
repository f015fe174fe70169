"""Watchers: what is left of one that was refused."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

import pytest

from stead.domain.errors import Unavailable
from stead.store.feed.watching import Follower, Watchers

if TYPE_CHECKING:
    from tests.rooms.store.books import Books

pytestmark = pytest.mark.one_database


@pytest.mark.parametrize(("most", "most_threads", "option"), [(1, 0, "max_watcher_threads"), (0, 1, "max_watchers")])
def test_a_refused_follower_holds_no_thread_and_is_deleted_without_an_error(
    books: Books, monkeypatch: pytest.MonkeyPatch, most: int, most_threads: int, option: str
) -> None:
    errors: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    watchers = Watchers(books.store, most, most_threads)
    now = watchers.look(None)
    for _ in range(2):  # the second one would be refused for its thread if the first had kept one
        with pytest.raises(Unavailable, match=rf"limit 0, \[stead\] {option}\)"):
            Follower(watchers, now, heartbeat=60, seconds=60)
    gc.collect()
    assert errors == []
