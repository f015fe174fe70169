"""Values at the edge of what databases hold: every one comes back as it was sent, or is refused at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from stead.domain.claim import Claim
from stead.domain.errors import (
    AllocationsNotFound,
    BadRequest,
    CapacityExceeded,
    ConsumerConflict,
    DuplicateProvider,
    ProviderNotFound,
    TooManyNames,
    TraitNotFound,
    Unavailable,
    UnitsViolated,
)
from stead.domain.names import MOST_NAMES
from stead.domain.provider import MAX_INT, Inventory
from stead.store import allocations, consumer_listing, inventories, names, providers, resource_classes, traits, usages
from stead.store.allocations import NewInventories
from tests.rooms.store.books import Books, claim_of, fresh_custom, fresh_uuid, picture, reloaded
from tests.rooms.store.protocol.interleaving import outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LONGEST = "🖥" * 200


@pytest.mark.parametrize("name", [LONGEST, "é 名 🖥", "", "'; DROP TABLE x; --", "%_\\", " ", "a\tb\n"], ids=ascii)
def test_a_name_comes_back_as_it_was_sent(books: Books, name: str) -> None:
    uuid = fresh_uuid()
    assert books.service.write(providers.create, uuid, name, None).name == name
    snapshot = books.service.snapshot()
    slot = snapshot.find(uuid)
    assert slot is not None
    assert snapshot.provider(slot).name == name
    with pytest.raises(DuplicateProvider):
        books.service.write(providers.create, fresh_uuid(), name, None)
    books.drop(uuid)


@pytest.mark.parametrize("ratio", [1.0, 16.0, 0.5, 1.1, 0.0, 3.40282e38, 1e-30])
def test_an_allocation_ratio_comes_back_as_it_was_sent(books: Books, ratio: float) -> None:
    host = books.provider()
    books.service.write(inventories.add, host, "VCPU", Inventory(MAX_INT, allocation_ratio=ratio))
    snapshot = books.service.snapshot()
    slot = snapshot.find(host)
    assert slot is not None
    assert snapshot.inventories(slot)["VCPU"].inventory.allocation_ratio == ratio
    books.drop(host)


def test_the_capacity_that_is_shown_is_the_capacity_that_is_claimed(books: Books) -> None:
    """Where the database keeps fewer digits of a ratio, it does so for both."""
    host = books.provider()
    books.service.write(inventories.add, host, "VCPU", Inventory(1000, allocation_ratio=1.23456789))
    snapshot = books.service.snapshot()
    slot = snapshot.find(host)
    assert slot is not None
    shown = snapshot.inventories(slot)["VCPU"].inventory.capacity
    books.claim(fresh_uuid(), {host: {"VCPU": shown}})
    with pytest.raises(CapacityExceeded):
        books.claim(fresh_uuid(), {host: {"VCPU": 1}})


def test_the_largest_numbers_fit_and_larger_ones_are_refused(books: Books) -> None:
    host, consumer = books.provider(), fresh_uuid()
    books.service.write(inventories.add, host, "VCPU", Inventory(MAX_INT, allocation_ratio=16.0))
    for n in range(3):
        books.claim(consumer if n == 0 else fresh_uuid(), {host: {"VCPU": MAX_INT}})
    assert books.used(host) == 3 * MAX_INT
    for amount in (MAX_INT + 1, 2**63, 10**400):
        with pytest.raises(UnitsViolated):
            books.claim(consumer, {host: {"VCPU": amount}})


def nul(books: Books) -> dict[str, Callable[[], Any]]:
    text = "CUSTOM_\0"
    host = books.provider(VCPU=1)
    write, read = books.service.write, books.service.read
    return {
        "a provider's name": lambda: write(providers.create, fresh_uuid(), text, None),
        "another name": lambda: write(providers.update, host, text, providers.KEEP),
        "a provider": lambda: write(providers.delete, text),
        "a consumer": lambda: write(allocations.release, text),
        "a consumer that is read": lambda: read(consumer_listing.of_consumer, text),
        "a claim's consumer": lambda: books.claim(text, {host: {"VCPU": 1}}),
        "a claim's provider": lambda: books.claim(fresh_uuid(), {text: {"VCPU": 1}}),
        "a claim's class": lambda: books.claim(fresh_uuid(), {host: {text: 1}}),
        "a claim's project": lambda: books.service.claim([Claim(fresh_uuid(), {host: {"VCPU": 1}}, text, "u")]),
        "a trait": lambda: write(traits.delete, text),
        "a class": lambda: write(resource_classes.delete, text),
        "an aggregate": lambda: books.aggregate(host, text),
        "a project's usage": lambda: read(usages.of_project, text),
    }


def test_a_nul_anywhere_is_stored_or_refused_but_never_a_fault_of_the_service(books: Books) -> None:
    for call in nul(books).values():
        assert outcome(call) != Unavailable.__name__


def test_a_text_that_is_too_long_is_stored_whole_or_refused(books: Books) -> None:
    for uuid, name in ((fresh_uuid(), "x" * 201), (fresh_uuid() * 2, fresh_uuid())):
        try:
            books.service.write(providers.create, uuid, name, None)
        except BadRequest:
            continue
        snapshot = books.service.snapshot()
        slot = snapshot.find(uuid)
        assert slot is not None
        assert snapshot.provider(slot).name == name
        books.drop(uuid)


def test_a_ratio_that_no_column_holds_is_stored_or_refused(books: Books) -> None:
    host = books.provider()
    for ratio in (-1e39, -1e300):
        inventory = Inventory(1, 1, allocation_ratio=ratio)
        try:
            books.reshape({host: NewInventories(books.generation(host), {"VCPU": inventory})}, {})
        except BadRequest:
            assert books.generation(host) == 0
    assert picture(books.service.snapshot()) == reloaded(books)


def test_aggregates_that_a_database_holds_for_the_same_are_one_to_it_and_never_endless_retries(books: Books) -> None:
    mark, ensure = fresh_uuid()[:8], names.aggregate_ids
    spellings = [f"{mark} Ab", f"{mark} aB", f"{mark} áb", f"{mark} ab "]
    ids = ensure(books.store, spellings)
    assert list(ids) == spellings
    assert ensure(books.store, spellings) == ids
    for spelling in spellings:
        assert ensure(books.store, [spelling]) == {spelling: ids[spelling]}
    assert len(set(ids.values())) == (1 if books.store.dialect.ignores_case else len(spellings))


def test_nothing_is_made_of_nothing(books: Books) -> None:
    assert names.aggregate_ids(books.store, []) == {}
    host = books.provider(VCPU=1)
    assert books.aggregate(host) == 1
    books.service.claim([])
    books.service.reshape({}, [])
    assert books.restock(host) == 2
    assert books.restock(host) == 3
    assert books.trait(host) == 3


def test_another_spelling_of_a_consumer_is_another_consumer_or_a_conflict(books: Books) -> None:
    host, consumer = books.provider(VCPU=9), "abcdef" + fresh_uuid()[6:]
    books.claim(consumer, {host: {"VCPU": 1}}, None)
    other = consumer.upper()
    both = [claim_of(spelling, {host: {"VCPU": 1}}) for spelling in (consumer, other)]
    new = "fedcba" + fresh_uuid()[6:]
    both_new = [claim_of(spelling, {host: {"VCPU": 1}}, None) for spelling in (new, new.upper())]
    if books.store.dialect.ignores_case:
        for claims in ([both[1]], both, both_new):
            with pytest.raises(ConsumerConflict):
                books.service.claim(claims)
        assert books.used(host) == 1
    else:
        books.service.claim(both)
        books.service.claim(both_new)
        assert books.used(host) == 4
        books.release(other)
    assert books.held(other) == {}
    assert books.held(consumer) == {host: {"VCPU": 1}}
    with pytest.raises(AllocationsNotFound):
        books.release(other)


def test_providers_traits_and_classes_are_known_by_their_exact_spelling(books: Books) -> None:
    uuid, trait = "abcdef" + fresh_uuid()[6:], fresh_custom()
    books.service.write(providers.create, uuid, uuid, None)
    books.service.write(traits.create, trait)
    for spelling in (uuid.upper(), f"{uuid} "):
        with pytest.raises(ProviderNotFound):
            books.drop(spelling)
    for spelling in (trait.lower(), f"{trait} "):
        with pytest.raises(TraitNotFound):
            books.service.write(traits.delete, spelling)
    books.service.write(traits.delete, trait)


def test_the_id_of_a_deleted_class_is_never_given_again(books: Books) -> None:
    """A process with old names in memory would write another class."""
    seen: set[int] = set()
    for _ in range(3):
        name = fresh_custom()
        books.service.write(resource_classes.create, name)
        id_ = int(books.scalar("SELECT id FROM resource_classes WHERE name = :name", name=name))
        assert id_ >= 10000
        assert id_ not in seen
        seen.add(id_)
        books.service.write(resource_classes.delete, name)


def test_a_claim_on_more_providers_than_one_statement_names(books: Books) -> None:
    hosts = [fresh_uuid() for _ in range(1100)]

    def create_all(tx: Any) -> None:
        rows = [{"uuid": uuid, "name": uuid, "generation": 0} for uuid in hosts]
        tx.connection.execute(sa.insert(providers.resource_providers), rows)
        rootless = "UPDATE resource_providers SET root_provider_id = id WHERE root_provider_id IS NULL"
        tx.connection.execute(sa.text(rootless))
        ids = providers.ids_by_uuid(tx.connection, hosts)
        inventories.add_or_overwrite(tx, {id_: {"VCPU": Inventory(1)} for id_ in ids.values()})
        tx.touch(ids.values())

    books.service.write(create_all)
    consumer = fresh_uuid()
    books.claim(consumer, {host: {"VCPU": 1} for host in hosts}, None)
    assert len(books.held(consumer)) == 1100
    assert {books.generation(host) for host in hosts[::100]} == {1}
    books.release(consumer)
    assert books.held(consumer) == {}
    assert picture(books.service.snapshot()) == reloaded(books)


@pytest.mark.parametrize("insert", [resource_classes.insert, traits.insert])
def test_a_site_gets_no_more_names_than_a_worker_should_hold(books: Books, insert: Callable[..., None]) -> None:
    before = picture(books.service.snapshot())
    names_of_all = [f"CUSTOM_MANY_{number}" for number in range(MOST_NAMES)]
    with pytest.raises(TooManyNames, match=f"up to {MOST_NAMES} (resource classes|traits)"):
        books.service.write(insert, names_of_all)
    assert reloaded(books) == before
