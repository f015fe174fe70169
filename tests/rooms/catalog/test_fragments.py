"""Texts are made once for each version of a provider, and what is cache of them is bounded."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from stead.catalog import fragments
from stead.catalog.fragments import TextCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pytest


class Maker:
    def __init__(self) -> None:
        self.made: list[int] = []

    def __call__(self, slots: Sequence[int]) -> Iterable[bytes]:
        self.made += slots
        return [b"text %d" % slot for slot in slots]


def get(
    cache: TextCache,
    form: object,
    slots: list[int],
    versions: list[int],
    make: Callable[[Sequence[int]], Iterable[bytes]],
) -> list[bytes]:
    return cache.get(form, np.array(slots), np.array(versions), make)


def cached(cache: TextCache, form: object) -> set[int]:
    """The slots whose texts are in the cache."""
    return {slot for slot, text in enumerate(cache._shelves[form].texts.tolist()) if text is not None}


def test_a_text_is_made_when_it_is_first_wanted_and_after_a_change() -> None:
    cache, make = TextCache(), Maker()
    assert get(cache, "form", [3, 1], [10, 10], make) == [b"text 3", b"text 1"]
    assert get(cache, "form", [1, 2, 3], [10, 10, 10], make) == [b"text 1", b"text 2", b"text 3"]
    assert get(cache, "form", [1, 3], [11, 10], make) == [b"text 1", b"text 3"]
    assert make.made == [3, 1, 2, 1]


def test_forms_do_not_share_texts() -> None:
    cache, make = TextCache(), Maker()
    get(cache, "one", [1], [10], make)
    get(cache, "other", [1], [10], make)
    assert make.made == [1, 1]


def test_an_empty_text_is_a_text() -> None:
    cache = TextCache()
    asked: list[Sequence[int]] = []

    def make(slots: Sequence[int]) -> Iterable[bytes]:
        asked.append(slots)
        return [b""]

    for _ in range(2):
        assert get(cache, "form", [1], [10], make) == [b""]
    assert asked == [[1]]


def test_those_not_used_lately_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "MOST_BYTES", 4 * len("text 1"))
    cache, make = TextCache(), Maker()
    for slot in (1, 2, 3, 1, 4, 5):
        get(cache, "form", [slot], [10], make)
    make.made.clear()
    get(cache, "form", [1], [10], make)
    assert make.made == []
    get(cache, "form", [2], [10], make)
    assert make.made == [2]
    for number in range(100):
        get(cache, "form", [number], [10], make)
    assert len(cached(cache, "form")) <= 6


def test_a_text_that_was_not_used_lately_is_made_again_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "MOST_BYTES", 4 * len("text 1"))
    cache, make = TextCache(), Maker()
    for slot in (1, 2, 3):
        get(cache, "form", [slot], [10], make)
    assert 1 in cached(cache, "form")
    make.made.clear()
    assert get(cache, "form", [1], [11], make) == [b"text 1"]
    assert make.made == [1]
    get(cache, "form", [1], [11], make)
    assert make.made == [1]


def test_the_number_of_forms_is_bounded() -> None:
    cache, make = TextCache(), Maker()
    for number in range(100):
        get(cache, number, [1], [10], make)
    assert len(cache._shelves) <= fragments.MOST_FORMS


def test_a_text_made_after_many_others_is_kept_with_them() -> None:
    cache, make = TextCache(), Maker()
    get(cache, "form", [2], [10], make)
    assert get(cache, "form", [5000, 2, 3], [10, 10, 10], make) == [b"text 5000", b"text 2", b"text 3"]
    assert make.made == [2, 5000, 3]


def test_threads_with_different_versions_each_get_their_own_text() -> None:
    cache, slots = TextCache(), np.arange(500)
    wrong: list[bytes] = []

    def read(version: int) -> None:
        expected = [b"%d %d" % (slot, version) for slot in range(500)]
        for _ in range(100):
            answer = cache.get(
                "form", slots, np.full(500, version), lambda these: [b"%d %d" % (slot, version) for slot in these]
            )
            wrong.extend(text for text, own in zip(answer, expected, strict=True) if text != own)

    threads = [threading.Thread(target=read, args=(version,)) for version in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
