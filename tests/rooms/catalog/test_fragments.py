"""Texts are made once for each version of a provider, and what is kept of them is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.catalog import fragments
from stead.catalog.fragments import Fragments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pytest


class Maker:
    def __init__(self) -> None:
        self.made: list[int] = []

    def __call__(self, slots: Sequence[int]) -> Iterable[str]:
        self.made += slots
        return [f"text {slot}" for slot in slots]


def test_a_text_is_made_when_it_is_first_wanted_and_after_a_change() -> None:
    texts, make = Fragments(), Maker()
    assert texts.get("form", [3, 1], [10, 10], make) == ["text 3", "text 1"]
    assert texts.get("form", [1, 2, 3], [10, 10, 10], make) == ["text 1", "text 2", "text 3"]
    assert texts.get("form", [1, 3], [11, 10], make) == ["text 1", "text 3"]
    assert make.made == [3, 1, 2, 1]


def test_forms_do_not_share_texts() -> None:
    texts, make = Fragments(), Maker()
    texts.get("one", [1], [10], make)
    texts.get("other", [1], [10], make)
    assert make.made == [1, 1]


def test_an_empty_text_is_a_text() -> None:
    texts = Fragments()
    asked: list[Sequence[int]] = []

    def make(slots: Sequence[int]) -> Iterable[str]:
        asked.append(slots)
        return [""]

    for _ in range(2):
        assert texts.get("form", [1], [10], make) == [""]
    assert asked == [[1]]


def test_those_not_used_lately_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "MOST_CHARACTERS", 4 * len("text 1"))
    texts, make = Fragments(), Maker()
    for slot in (1, 2, 3, 1, 4, 5):
        texts.get("form", [slot], [10], make)
    make.made.clear()
    texts.get("form", [1], [10], make)
    assert make.made == []
    texts.get("form", [2], [10], make)
    assert make.made == [2]
    for number in range(100):
        texts.get("form", [number], [10], make)
    shelf = texts._shelves["form"]
    assert len(shelf.recent) + len(shelf.older) <= 6


def test_a_text_that_was_not_used_lately_is_made_again_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "MOST_CHARACTERS", 4 * len("text 1"))
    texts, make = Fragments(), Maker()
    for slot in (1, 2, 3):
        texts.get("form", [slot], [10], make)
    shelf = texts._shelves["form"]
    assert 1 in shelf.older
    assert 1 not in shelf.recent
    make.made.clear()
    assert texts.get("form", [1], [11], make) == ["text 1"]
    assert make.made == [1]
    texts.get("form", [1], [11], make)
    assert make.made == [1]


def test_the_number_of_forms_is_bounded() -> None:
    texts, make = Fragments(), Maker()
    for number in range(100):
        texts.get(number, [1], [10], make)
    assert len(texts._shelves) <= fragments.MOST_FORMS
