"""Watchers: the share of each client, and what is left of one that was refused."""

from __future__ import annotations

import gc
import random
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from stead.domain.errors import Unavailable
from stead.store.feed.watching import ChangeEvent, End, Follower, Watcher, Watchers

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


@pytest.mark.parametrize("seed", range(5))
def test_no_client_keeps_another_from_its_share(books: Books, seed: int) -> None:
    most, random_client = 12, random.Random(seed)
    watchers = Watchers(books.store, most)
    now = watchers.look(None)
    open_ones: dict[Watcher, str] = {}
    ended: list[str] = []

    def watch(client: str) -> None:
        def tell(news: ChangeEvent) -> None:
            if isinstance(news, End):
                ended.append(client)

        open_ones[watchers.watch(now, tell, heartbeat=600, seconds=600, client=client)] = client

    for _ in range(most):
        watch("greedy")  # alone, it may have all
    for _ in range(200):
        client = random_client.choice(["greedy"] * 4 + ["ann", "bob", "eve"])
        before = Counter(open_ones.values())
        if random_client.random() < 0.2 and before[client]:
            watcher = next(each for each, of in open_ones.items() if of == client)
            watchers.leave(watcher)
            del open_ones[watcher]
            continue
        _, number = before.most_common(1)[0]
        is_full = before.total() == most
        ended.clear()
        try:
            watch(client)
        except Unavailable:
            assert is_full
            assert number <= before[client] + 1
            assert ended == []
            continue
        assert len(ended) == is_full
        open_ones = {watcher: of for watcher, of in open_ones.items() if watcher.is_open}
        after = Counter(open_ones.values())
        assert after.total() == watchers.waiting <= most
        assert after[client] == before[client] + 1
        assert all(before[loser] >= after[client] for loser in ended)
    watchers.close()
