"""A load reads columns, a refresh reads rows: both have what the database has, on every kind of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from stead.catalog.catalog import Catalog
from stead.catalog.refresh import refreshed
from stead.catalog.snapshot import Snapshot
from stead.store.feed import refresh_source
from stead.store.feed.refresh_source import ChangeSource, names_of, state_of
from stead.store.sql.dialects import dialect_of
from stead.store.sql.statements import BulkQuery
from stead.store.tables import inventories, resource_providers
from tests.rooms.store.books import Books, fresh_uuid, picture

AGGREGATES = ("4d1a7e1e-6f0c-4f6b-9f6d-0d6d1c9a3b11", "0a3cf8f2-88de-4a0c-9d0e-5f2b6a1c7d22")
NAMES = ('"quoted"', "back\\slash", "a\tb\nc\x7f", "nul\x1f\x1e", "é ü 猫", "\u2028", "[1,null]", "'", "")
RATIOS = (1.0, 16.0, 1.1, 0.1, 1 / 3, 123456.789, 1e-7, 3.0e20, 2.5)
GREAT = 2**31 - 1


def by_rows(books: Books) -> dict[str, Any]:
    """The picture of a refresh that reads all providers."""
    dialect = books.store.dialect
    ids = books.store.read(lambda connection: connection.scalars(sa.select(resource_providers.c.id)).all())
    state, names = books.store.read(state_of, dialect, ids), books.store.read(names_of, dialect)
    whole = replace(state, everything=True, traits=names.traits, resource_classes=names.resource_classes)
    return picture(refreshed(Snapshot.empty(), whole))


def by_columns(books: Books) -> dict[str, Any]:
    source = ChangeSource(books.store)
    try:
        return picture(Catalog(source).fresh())
    finally:
        source.close()


@pytest.fixture
def odd_books(empty_books: Books) -> Books:
    """Trees, sums of both kinds, and what a column of SQL can hold beside what Stead writes."""
    books = empty_books
    hosts = [books.provider(VCPU=8, DISK_GB=GREAT) for _ in NAMES]
    children = [books.provider(parent=host, VCPU=2) for host in hosts[::2]]
    books.provider(parent=children[0])
    books.aggregate(hosts[0], *AGGREGATES)
    books.aggregate(hosts[1], *reversed(AGGREGATES))
    books.trait(hosts[0], "HW_CPU_X86_VMX", "HW_CPU_X86_AVX")
    books.trait(children[0], "HW_CPU_X86_AVX", "HW_CPU_X86_VMX")
    books.claim(fresh_uuid(), {hosts[0]: {"VCPU": 1, "DISK_GB": 5}, children[0]: {"VCPU": 2}})
    books.claim(fresh_uuid(), {hosts[2]: {"VCPU": 3}})
    books.execute("DELETE FROM stead_usage WHERE class_id = 0 AND used = 3")
    for host, name, ratio in zip(hosts, NAMES, RATIOS, strict=True):
        id_ = books.scalar("SELECT id FROM resource_providers WHERE uuid = :uuid", uuid=host)
        books.execute("UPDATE resource_providers SET name = :name WHERE id = :id", name=name, id=id_)
        books.execute("UPDATE inventories SET allocation_ratio = :r WHERE resource_provider_id = :id", r=ratio, id=id_)
    books.execute("UPDATE resource_providers SET updated_at = NULL, created_at = NULL WHERE uuid = :u", u=hosts[3])
    books.execute("UPDATE inventories SET updated_at = NULL WHERE total = 2")
    return books


@pytest.mark.parametrize("portion", [1, 3, 4096])
def test_a_load_by_columns_is_one_by_rows(odd_books: Books, monkeypatch: pytest.MonkeyPatch, portion: int) -> None:
    monkeypatch.setattr(refresh_source, "PORTION", portion)
    loaded = by_columns(odd_books)
    assert loaded == by_rows(odd_books)
    providers = [state[0] for uuid, state in loaded.items() if uuid not in ("traits", "classes")]
    assert set(NAMES) <= {provider.name for provider in providers}


def test_rows_of_providers_that_do_not_exist_are_no_part_of_a_load(empty_books: Books) -> None:
    """Another service may have deleted the provider; a provider without a root is in no tree."""
    books = empty_books
    host, rootless = books.provider(VCPU=8), books.provider(VCPU=8)
    books.execute("UPDATE resource_providers SET root_provider_id = NULL WHERE uuid = :uuid", uuid=rootless)
    with books.store.writer.begin() as connection:
        # No foreign key of these tables refers to a provider.
        connection.execute(
            sa.insert(inventories).values(
                resource_provider_id=GREAT, resource_class_id=0, total=1, reserved=0, min_unit=1, max_unit=1,
                step_size=1, allocation_ratio=1.0,
            )
        )  # fmt: skip
    assert set(by_columns(books)) == {"traits", "classes", host}
    books.execute("DELETE FROM inventories WHERE resource_provider_id = :great", great=GREAT)
    books.execute("UPDATE resource_providers SET root_provider_id = id")


RATIOS_READ = BulkQuery(sa.select(inventories.c.resource_provider_id, inventories.c.allocation_ratio))


def test_a_text_that_may_be_truncated_is_not_parsed(odd_books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = by_columns(odd_books)
    monkeypatch.setattr(type(dialect_of(sa.make_url(odd_books.url))), "longest_joined", 1)
    assert by_columns(odd_books) == whole
    with odd_books.store.reader.connect() as connection:
        ids, ratios = RATIOS_READ.columns(connection)
        assert sorted(zip(ids, ratios, strict=True)) == sorted(RATIOS_READ.rows(connection))


def test_a_load_has_texts_of_any_character_set(empty_books: Books) -> None:
    """MariaDB would copy the bytes of such a text into JSON."""
    books = empty_books
    if books.store.dialect.defines_in_transactions:
        pytest.skip("texts of this database have one character set")
    host = books.provider(VCPU=1)
    books.execute("ALTER TABLE resource_providers MODIFY name VARCHAR(200) CHARACTER SET latin1")
    books.rename(host, "é ü")
    assert by_columns(books)[host][0].name == "é ü"
    assert by_columns(books) == by_rows(books)
