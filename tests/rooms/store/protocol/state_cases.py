"""Disabling and enabling beside other writes, for `test_interleavings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.store import provider_trees, providers, traits
from tests.rooms.store.books import Books, fresh_uuid
from tests.rooms.store.protocol.interleaving import Case
from tests.rooms.store.protocol.tree_cases import described, put

if TYPE_CHECKING:
    from stead.domain.provider import Disabled


def disable(books: Books, provider: str, reason: str = "broken fan") -> int:
    return books.service.write(provider_trees.disable, provider, reason, None).generation


def enable(books: Books, provider: str) -> int:
    return books.service.write(provider_trees.enable, provider).generation


def state(books: Books, provider: str) -> Disabled | None:
    """Why a provider is disabled, itself or by one above it, as snapshots show it."""
    snapshot = books.service.snapshot()
    slot = snapshot.find(provider)
    cause = None if slot is None else snapshot.service_states.cause(slot)
    return None if cause is None else cause[1]._replace(since=0)


def a_state_and_a_claim(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    return Case(
        lambda: disable(books, host),
        lambda: books.claim(consumer, {host: {"VCPU": 1}}),
        lambda: (books.used(host), books.generation(host), state(books, host)),
    )


def a_state_and_a_claim_far_below(books: Books) -> Case:
    host, consumer = books.provider(), fresh_uuid()
    numa = books.provider(parent=books.provider(parent=host), VCPU=4)
    return Case(
        lambda: disable(books, host),
        lambda: books.claim(consumer, {numa: {"VCPU": 1}}),
        lambda: (books.used(numa), books.generation(numa), books.generation(host), state(books, numa)),
    )


def a_state_that_ends_and_a_claim_below(books: Books) -> Case:
    host, consumer = books.provider(), fresh_uuid()
    numa = books.provider(parent=host, VCPU=4)
    disable(books, host)
    return Case(
        lambda: enable(books, host),
        lambda: books.claim(consumer, {numa: {"VCPU": 1}}),
        lambda: (books.used(numa), books.generation(host), state(books, numa)),
    )


def a_state_and_a_release(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    books.claim(consumer, {host: {"VCPU": 1}})
    return Case(
        lambda: disable(books, host),
        lambda: books.release(consumer),
        lambda: (books.used(host), books.generation(host), state(books, host)),
    )


def a_state_and_a_new_child(books: Books) -> Case:
    host, child = books.provider(), fresh_uuid()
    return Case(
        lambda: disable(books, host),
        lambda: books.service.write(providers.create, child, child, host).root == host,
        lambda: (books.generation(host), state(books, child)),
    )


def a_state_and_the_deletion_of_the_provider(books: Books) -> Case:
    host = books.provider()
    return Case(lambda: disable(books, host), lambda: books.drop(host), lambda: (books.knows(host), state(books, host)))


def a_state_and_new_traits(books: Books) -> Case:
    host = books.provider()
    generation = books.generation(host)
    return Case(
        lambda: disable(books, host),
        lambda: books.service.write(traits.replace, host, ["HW_NUMA_ROOT"], generation),
        lambda: (books.generation(host), state(books, host)),
    )


def _below_a_disabled_provider(books: Books) -> tuple[str, str, str]:
    """A disabled provider, another one of its tree, and one with inventory below that."""
    host = books.provider()
    disabled, other = books.provider(parent=host), books.provider(parent=host)
    disable(books, disabled)
    return disabled, other, books.provider(parent=other, VCPU=4)


def a_move_below_a_disabled_provider_and_a_claim(books: Books) -> Case:
    disabled, other, numa = _below_a_disabled_provider(books)
    consumer = fresh_uuid()
    return Case(
        lambda: books.move(other, disabled).parent == disabled,
        lambda: books.claim(consumer, {numa: {"VCPU": 1}}),
        lambda: (books.used(numa), books.generation(numa), state(books, numa)),
    )


def a_document_that_moves_below_a_disabled_provider_and_a_claim(books: Books) -> Case:
    disabled, other, numa = _below_a_disabled_provider(books)
    consumer = fresh_uuid()
    return Case(
        lambda: put(books, described(other, parent=disabled)),
        lambda: books.claim(consumer, {numa: {"VCPU": 1}}),
        lambda: (books.used(numa), books.generation(numa), state(books, numa)),
    )


def a_state_and_a_move_away(books: Books) -> Case:
    host, other = books.provider(), books.provider()
    branch = books.provider(parent=host)
    leaf = books.provider(parent=branch, VCPU=4)
    return Case(
        lambda: disable(books, host),
        lambda: books.move(branch, other).parent == other,
        lambda: (books.generation(host), state(books, leaf), state(books, branch)),
    )


def two_states_of_one_provider(books: Books) -> Case:
    host = books.provider()
    return Case(
        lambda: disable(books, host, "one"),
        lambda: disable(books, host, "other"),
        lambda: (books.generation(host), state(books, host)),
    )


CASES: list[Any] = [case for name, case in list(globals().items()) if name.startswith(("a_", "two_"))]
