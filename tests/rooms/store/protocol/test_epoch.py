"""A new epoch: who restored a database says so, and every process forgets what it knew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.cli.app import run
from stead.store.protocol import store
from tests.conftest import write_configuration
from tests.rooms.store.books import Books, fresh_uuid

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_every_process_loads_everything_anew(books: Books, second: Books) -> None:
    host, name = books.provider(VCPU=4), fresh_uuid()
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    for service in (books, second):
        service.service.snapshot()
    books.execute("UPDATE resource_providers SET name = :name WHERE uuid = :uuid", name=name, uuid=host)
    assert second.service.snapshot().find_named(name) is None
    begun = books.service.write(store.renew_epoch)
    assert books.scalar("SELECT epoch FROM stead_epoch") == begun
    for service in (books, second):
        assert service.service.snapshot().find_named(name) is not None
        assert service.used(host) == 1


def test_kept_sums_from_before_a_restore_are_gone(books: Books) -> None:
    """The other tables alone came from a backup, and the provider reached the same generation again."""
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    books.claim(consumer, {host: {"VCPU": 3}})
    books.release_elsewhere(consumer)
    assert books.used(host) == 3
    books.service.write(store.renew_epoch)
    assert books.used(host) == 0
    books.claim(fresh_uuid(), {host: {"VCPU": 4}})


def test_an_epoch_that_a_restore_lost_is_made(books: Books) -> None:
    books.execute("DELETE FROM stead_epoch")
    begun = books.service.write(store.renew_epoch)
    host = books.provider()
    assert books.knows(host)
    assert books.scalar("SELECT epoch FROM stead_epoch") == begun


def test_the_command_reaches_a_running_service(
    books: Books, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host, name = books.provider(), fresh_uuid()
    books.service.snapshot()
    books.execute("UPDATE resource_providers SET name = :name WHERE uuid = :uuid", name=name, uuid=host)
    configuration = str(write_configuration(tmp_path, books.url))
    assert run(["db", "new-epoch", "--config-file", configuration]) == 0
    begun = books.scalar("SELECT epoch FROM stead_epoch")
    assert capsys.readouterr().out == f"epoch {begun} has begun; every running service reloads everything\n"
    assert books.service.snapshot().find_named(name) is not None
    assert run(["--json", "db", "new-epoch", "--config-file", configuration]) == 0
    assert books.scalar("SELECT epoch FROM stead_epoch") in capsys.readouterr().out


def test_a_database_without_the_tables_is_refused(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["db", "new-epoch", "--config-file", str(write_configuration(tmp_path, database_url))]) != 0
    assert "the database cannot be used" in capsys.readouterr().err
