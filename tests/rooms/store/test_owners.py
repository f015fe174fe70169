"""Projects, users and consumer types: made before the claim that names them first, and looked up by every claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from stead.domain.claim import Claim
from stead.domain.errors import CapacityExceeded, GenerationConflict, ProviderNotFound
from stead.store import allocations, consumer_listing, names
from stead.store.tables import placement_aggregates
from tests.rooms.store.books import Books, fresh_uuid

if TYPE_CHECKING:
    from stead.store.consumer_listing import HeldAllocations
    from stead.store.protocol.store import Transaction


def a_claim(host: str, owner: str, amount: int = 1) -> Claim:
    return Claim(fresh_uuid(), {host: {"VCPU": amount}}, f"project {owner}", f"user {owner}", owner)


def held(books: Books, claim: Claim) -> HeldAllocations | None:
    return books.service.read(consumer_listing.of_consumer, claim.consumer)


def owner_of(books: Books, claim: Claim) -> tuple[str, str, str | None]:
    holding = held(books, claim)
    assert holding is not None
    return holding.project, holding.user, holding.consumer_type


def test_they_are_made_before_the_transaction_of_the_claim_which_makes_none(books: Books) -> None:
    claim, attempts = a_claim(books.provider(VCPU=4), fresh_uuid()), []

    def attempt(tx: Transaction) -> None:
        attempts.append(names.find(tx.connection, [(names.PROJECT, claim.project)]) != [None])
        allocations.replace(tx, [claim])

    books.service.write(attempt)
    assert attempts == [False, True]
    assert owner_of(books, claim) == (claim.project, claim.user, claim.consumer_type)


def test_one_that_is_named_in_a_refused_claim_is_made(books: Books) -> None:
    """So that who is refused again and again does not begin anew again and again."""
    host, owner = books.provider(VCPU=4), fresh_uuid()
    with pytest.raises(CapacityExceeded):
        books.service.claim([a_claim(host, owner, 5)])
    of_project = (names.PROJECT, f"project {owner}")
    assert books.service.read(names.find, [of_project]) != [None]


def test_each_of_many_consumers_gets_its_own(books: Books) -> None:
    host = books.provider(VCPU=40)
    claims = [a_claim(host, fresh_uuid()) for _ in range(12)]
    claims[3] = Claim(fresh_uuid(), {host: {"VCPU": 1}}, claims[5].project, claims[7].user, None)
    books.service.claim(claims)
    assert [owner_of(books, claim) for claim in claims] == [
        (claim.project, claim.user, claim.consumer_type) for claim in claims
    ]


def test_no_id_is_remembered_that_a_restored_database_gave_to_another(books: Books) -> None:
    host, first, second = books.provider(VCPU=4), fresh_uuid(), fresh_uuid()
    books.service.claim([a_claim(host, first)])
    for table, column, prefix in (
        ("projects", "external_id", "project "),
        ("users", "external_id", "user "),
        ("consumer_types", "name", ""),
    ):
        rename = f"UPDATE {table} SET {column} = :other WHERE {column} = :one"
        assert books.execute(rename, one=prefix + first, other=prefix + second) == 1
    for owner in (first, second):
        claim = a_claim(host, owner)
        books.service.claim([claim])
        assert owner_of(books, claim) == (claim.project, claim.user, claim.consumer_type)


def test_a_consumer_changes_hands_with_its_next_claim_and_keeps_its_type_if_none_is_named(books: Books) -> None:
    host = books.provider(VCPU=9)
    first, second = a_claim(host, fresh_uuid()), a_claim(host, fresh_uuid())
    books.service.claim([first, second])
    taken_over = Claim(first.consumer, {host: {"VCPU": 2}}, second.project, second.user, None, expected=1)
    stays = Claim(second.consumer, {host: {"VCPU": 3}}, second.project, second.user, second.consumer_type, expected=1)
    books.service.claim([taken_over, stays])
    assert owner_of(books, first) == (second.project, second.user, first.consumer_type)
    assert owner_of(books, second) == (second.project, second.user, second.consumer_type)
    assert [books.consumer_generation(claim.consumer) for claim in (first, second)] == [2, 2]
    present = books.service.read(allocations.find, [first.consumer, second.consumer])
    assert {row.uuid for row in present.values()} == {first.consumer, second.consumer}


@pytest.mark.parametrize("refused", [GenerationConflict, ProviderNotFound])
def test_what_is_refused_makes_no_aggregates(books: Books, refused: type[Exception]) -> None:
    """A client whose knowledge is old must not fill the tables with names that nobody uses."""
    provider = books.provider() if refused is GenerationConflict else fresh_uuid()
    uuids = [fresh_uuid() for _ in range(3)]
    with pytest.raises(refused):
        books.service.replace_aggregates(provider, uuids, 7)
    aggregates = placement_aggregates.c.uuid
    assert not books.service.read(
        lambda connection: connection.scalars(sa.select(aggregates).where(aggregates.in_(uuids))).all()
    )
