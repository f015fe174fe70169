"""Planned changes while other clients write: the consumers of drained hosts are read after the snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stead.domain.what_if import Drain
from stead.service.what_if import Bounds
from tests.rooms.store.books import Books, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    made = Books(f"sqlite:///{tmp_path}/placement.db")
    yield made
    made.close()


def after_the_first_view(books: Books, monkeypatch: pytest.MonkeyPatch, write: Callable[[], object]) -> None:
    """Let *write* come between the first snapshot that a what-if reads and the consumers that it reads then."""
    catalog = books.service._catalog
    view = catalog.view

    def view_and_write() -> object:
        viewed = view()
        monkeypatch.setattr(catalog, "view", view)
        write()
        return viewed

    monkeypatch.setattr(catalog, "view", view_and_write)


@pytest.mark.parametrize("holds", ["also", "only"])
def test_a_move_has_all_allocations_also_those_from_a_provider_that_is_newer_than_the_snapshot(
    books: Books, monkeypatch: pytest.MonkeyPatch, holds: str
) -> None:
    host, other = books.provider(VCPU=8), books.provider(VCPU=8)
    books.provider(parent=other, VGPU=4)
    consumer = fresh_uuid()
    if holds == "also":
        books.claim(consumer, {host: {"VCPU": 2}})

    def claim_from_a_new_child() -> None:
        child = books.provider(parent=host, VGPU=4)
        books.claim(consumer, {child: {"VGPU": 1}, **({host: {"VCPU": 2}} if holds == "also" else {})})

    after_the_first_view(books, monkeypatch, claim_from_a_new_child)
    planned, _ = books.service.what_if([Drain(host)], Bounds(100, 100))
    (move,) = planned.moves
    classes = {class_id for amounts in move.amounts.values() for class_id in amounts}
    assert len(classes) == (2 if holds == "also" else 1)
    assert not planned.stuck


def test_a_provider_that_was_moved_below_a_drained_host_meanwhile_is_drained(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, moved = books.provider(VCPU=8), books.provider(VCPU=8)
    books.provider(VCPU=8)
    books.claim(fresh_uuid(), {moved: {"VCPU": 1}})
    after_the_first_view(books, monkeypatch, lambda: books.move(moved, host))
    planned, _ = books.service.what_if([Drain(host)], Bounds(100, 100))
    assert len(planned.moves) == 1
