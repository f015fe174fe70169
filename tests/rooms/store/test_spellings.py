"""Names are compared as they are spelled, whatever the collation of a database takes for the same."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.candidates.provider_trees import matching_providers
from stead.domain.claim import Claim
from stead.domain.errors import (
    BadRequest,
    DuplicateProvider,
    IndistinctName,
    ResourceClassNotFound,
    TraitNotFound,
    UnknownResourceClass,
    UnknownTraits,
)
from stead.domain.request import Page, ProviderQuery
from stead.store import consumer_listing, names, providers, resource_classes, traits, usages
from stead.store.consumer_listing import ConsumerFilter
from tests.rooms.store.books import Books, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator

SPELLINGS = [
    ("p1", "P1"),
    ("p1", "p1 "),
    ("p1", " p1"),
    ("zurich", "zürich"),
    ("strasse", "straße"),
    ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"),
    ("host \N{GRINNING FACE}", "host \N{THUMBS UP SIGN}"),
    ("p1", "p1\N{ZERO WIDTH SPACE}"),
    ("p_1", "p%1"),
    ("1", "01"),
]
"""Two texts that are not the same, and may be to a database."""


TABLES = ("projects", "users", "consumer_types", "resource_providers", "traits", "resource_classes")
CHARSETS = {"mysql": ("utf8mb3", "utf8mb4")}
"""Of the tables of deployments of years ago, and of new ones; other databases compare text in one way."""


def in_every_charset(books: Books) -> Iterator[str]:
    """A text to begin names with, while the tables have each of the character sets that they may have."""
    for charset in CHARSETS.get(books.store.writer.dialect.name, ("",)):
        if charset:
            for table in TABLES:
                books.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET {charset}")
        yield fresh_uuid()[:8]


def is_claimed(books: Books, claim: Claim) -> bool:
    """Whether *claim* was made; if not, the database cannot tell an owner from another one, or lacks a character."""
    try:
        books.service.claim([claim])
    except (IndistinctName, BadRequest):
        assert books.service.read(consumer_listing.of_consumer, claim.consumer) is None
        return False
    return True


@pytest.mark.parametrize("part", ["project", "user", "type"])
def test_of_two_spellings_each_sees_its_own_or_one_is_refused(empty_books: Books, part: str) -> None:
    books = empty_books
    host = books.provider(VCPU=999)
    for mark in in_every_charset(books):
        claimed = 0
        for number, spellings in enumerate(SPELLINGS):
            base = f"{mark} {number}"
            for amount, spelling in enumerate(spellings, 1):
                owner = {"project": base, "user": base, "type": base} | {part: f"{base} {spelling}"}
                project, user, kind = owner.values()
                claim = Claim(fresh_uuid(), {host: {"VCPU": amount}}, project, user, kind)
                made = is_claimed(books, claim)
                try:
                    books.service.read(names.ids_of_owners, project, user, kind)
                except BadRequest:  # no name in these tables has such a character
                    assert not made
                    continue
                used = books.service.read(usages.of_project, project, user, kind)
                expected = {kind: {"VCPU": amount}} if made else {}
                assert {name: of_type.resources for name, of_type in used.items()} == expected
                page = books.service.read(consumer_listing.page_of, ConsumerFilter(project, user, kind), Page(), 1000)
                shown = {
                    uuid: (holding.project, holding.user, holding.consumer_type)
                    for uuid, holding in page.allocations.items()
                }
                assert shown == ({claim.consumer: (project, user, kind)} if made else {})
                claimed += made
        assert claimed >= len(SPELLINGS) - 1  # one of each pair, but for the characters that the oldest tables lack


def test_a_provider_is_found_under_its_own_name_only(empty_books: Books) -> None:
    books = empty_books
    for mark in in_every_charset(books):
        made: dict[str, list[str]] = {}
        for number, spellings in enumerate(SPELLINGS):
            for spelling in spellings:
                uuid, name = fresh_uuid(), f"{mark} {number} {spelling}"
                made[name] = []
                with suppress(DuplicateProvider, BadRequest):
                    books.service.write(providers.create, uuid, name, None)
                    made[name] = [uuid]
        snapshot = books.service.snapshot()
        for name, uuids in made.items():
            assert [snapshot.uuid(slot) for slot in matching_providers(snapshot, ProviderQuery(name=name))] == uuids
        assert sum(map(len, made.values())) >= len(SPELLINGS) - 1


@pytest.mark.parametrize(
    "name", ["hw_cpu_x86_vmx", "HW_CPU_X86_VMX ", "HW_CPU_X86_VM\N{FULLWIDTH LATIN CAPITAL LETTER X}"]
)
def test_traits_and_classes_are_known_by_their_own_names_only(empty_books: Books, name: str) -> None:
    books = empty_books
    host = books.provider()
    for _ in in_every_charset(books):
        with pytest.raises(UnknownTraits):
            books.trait(host, name)
        with pytest.raises(TraitNotFound):
            books.service.write(traits.delete, name)
        like_a_class = name.replace("HW_CPU_X86_VM", "VGP").replace("hw_cpu_x86_vmx", "vgpu").replace("X", "U")
        with pytest.raises(UnknownResourceClass):
            books.stock(host, **{like_a_class: 1})
        with pytest.raises(ResourceClassNotFound):
            books.service.write(resource_classes.delete, like_a_class)


def test_names_are_still_found_by_their_index(empty_books: Books) -> None:
    """An exact comparison in SQL would read the whole table where the collation is another."""
    books = empty_books
    if books.store.writer.dialect.name not in ("mysql", "mariadb"):
        pytest.skip("its collations compare exactly")
    for mark in in_every_charset(books):
        names.project_ids(books.store, {f"{mark} {number}" for number in range(200)})
        asked: list[tuple[str, Any]] = []

        def receive(_connection: Any, _cursor: Any, text: str, arguments: Any, *_more: Any, asked: Any = asked) -> None:
            asked.append((text, arguments))

        sa.event.listen(books.store.reader, "before_cursor_execute", receive)
        assert books.service.read(names.find, [(names.PROJECT, f"{mark} 7")]) != [None]
        sa.event.remove(books.store.reader, "before_cursor_execute", receive)
        (text, arguments) = next(query for query in asked if "projects" in query[0])
        with books.store.reader.connect() as connection:
            plan = connection.exec_driver_sql(f"EXPLAIN {text}", arguments).mappings().all()
        assert [row["type"] for row in plan if row["table"] == "projects"] == ["const"]


def test_known_aggregates_beside_new_ones_cost_no_statement_each(books: Books) -> None:
    stored, new = [fresh_uuid() for _ in range(3)], [fresh_uuid() for _ in range(50)]
    first = names.aggregate_ids(books.store, stored)
    statements = []

    def note(*given: Any) -> None:
        statements.append(given[2])

    sa.event.listen(books.store.writer, "before_cursor_execute", note)
    ids = names.aggregate_ids(books.store, [*stored, *new])
    sa.event.remove(books.store.writer, "before_cursor_execute", note)
    assert {uuid: ids[uuid] for uuid in stored} == first
    assert len(ids) == len(stored) + len(new)
    assert len(statements) < len(new), statements
    for spelling in (stored[0].upper(), new[0].upper()):
        if books.store.writer.dialect.name == "mysql":  # its collations take both for the same
            assert names.aggregate_ids(books.store, [spelling, new[1]])[spelling] == ids[spelling.lower()]
        else:
            assert names.aggregate_ids(books.store, [spelling])[spelling] not in ids.values()
