from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rooms.store.books import Books, faults

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def module_books(module_ready_database_url: str) -> Iterator[Books]:
    books = Books(module_ready_database_url)
    yield books
    books.close()


@pytest.fixture
def books(module_books: Books) -> Iterator[Books]:
    """A service with whatever the tests before left; afterwards nothing may be wrong with the books."""
    yield module_books
    assert faults(module_books) == {}


@pytest.fixture
def second(books: Books) -> Iterator[Books]:
    """Another service on the same database."""
    another = Books(books.url, upgrade=False)
    yield another
    another.close()


@pytest.fixture
def empty_books(ready_database_url: str) -> Iterator[Books]:
    """A service on a database of its own, with nothing but the standard names."""
    books = Books(ready_database_url)
    yield books
    assert faults(books) == {}
    books.close()
