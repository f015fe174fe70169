"""A database that is not the one that was read before: everything is loaded anew, whatever its clock says."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from stead.store.protocol.store import Connections
from tests.rooms.store.books import Books, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def renamed(books: Books, second: Books) -> Callable[[], bool]:
    """Whether the second service sees a name that was changed behind the clock's back."""
    host = books.provider(VCPU=4)
    second.service.snapshot()
    name = fresh_uuid()
    books.execute("UPDATE resource_providers SET name = :name WHERE uuid = :uuid", name=name, uuid=host)
    return lambda: second.service.snapshot().find_named(name) is not None


def reconnect(books: Books) -> None:
    """None of the connections broke."""
    books.service._source.close()
    books.store.close()
    books.provider()


def test_new_connections_to_the_same_server_change_nothing(second: Books, renamed: Callable[[], bool]) -> None:
    reconnect(second)
    assert not renamed()


def test_another_server_behind_new_connections(
    books: Books, second: Books, renamed: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(books.store.dialect), "identity", lambda *_: "another")
    books.provider()
    assert not renamed(), "the connection is still the old one"
    reconnect(second)
    assert renamed()


@pytest.mark.parametrize("which", ["refresher", "reader", "writer"])
def test_a_connection_that_broke_anywhere(books: Books, second: Books, renamed: Callable[[], bool], which: str) -> None:
    with getattr(second.store, which).connect() as connection:
        connection.invalidate()
    books.provider()
    assert renamed()


def test_it_is_read_with_new_connections_alone(books: Books, second: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(type(books.store.dialect), "identity", lambda _, connection: asked.append(connection))
    for _ in range(5):
        second.service.snapshot()
        books.provider()
    assert asked == []
    reconnect(second)
    second.service.snapshot()
    assert asked


def test_it_is_the_same_on_every_connection(books: Books) -> None:
    with books.store.refresher.connect() as first, books.store.refresher.connect() as second:
        servers = [Connections.server_of(connection) for connection in (first, second)]
    assert servers[0] == servers[1] is not None


def put_in_place(url: str, backup: Path) -> None:
    """A file is put where the database was, as a restore does."""
    path = Path(sa.make_url(url).database or "")
    for file in path.parent.glob(f"{path.name}-*"):
        file.unlink()
    beside = path.with_name(f"{path.name}.new")  # the backup may lie on another file system
    shutil.copy(backup, beside)
    beside.replace(path)


@pytest.mark.one_database
class TestAFileThatWasReplaced:
    def test_reads_and_writes_go_on_with_the_new_one(self, empty_books: Books, tmp_path: Path) -> None:
        books, backup = empty_books, tmp_path / "backup.db"
        saved = books.provider(VCPU=4)
        source, target = sqlite3.connect(sa.make_url(books.url).database or ""), sqlite3.connect(backup)
        source.backup(target)
        source.close()
        target.close()
        shutil.copy(backup, tmp_path / "again.db")
        lost = books.provider(VCPU=4)
        assert books.knows(lost)

        put_in_place(books.url, backup)
        assert (books.knows(saved), books.knows(lost)) == (True, False)
        new = books.provider(VCPU=1)
        assert books.knows(new)
        another = Books(books.url, upgrade=False)
        assert (another.knows(new), another.knows(lost)) == (True, False)
        later = another.provider()
        assert books.knows(later)
        another.close()

        put_in_place(books.url, tmp_path / "again.db")
        consumer = fresh_uuid()
        books.claim(consumer, {saved: {"VCPU": 1}}, None)
        assert (books.held(consumer), books.used(saved), books.knows(new)) == ({saved: {"VCPU": 1}}, 1, False)

    def test_one_that_is_away_is_not_made_anew(self, empty_books: Books, tmp_path: Path) -> None:
        books, host = empty_books, empty_books.provider()
        path = Path(sa.make_url(books.url).database or "")
        shutil.move(path, tmp_path / "away.db")
        assert books.knows(host)
        assert not path.exists()
        shutil.move(tmp_path / "away.db", path)
        assert books.knows(host)
