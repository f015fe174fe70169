"""Whatever comes between two statements of a write: the end is that of one write after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from stead.domain.provider import Inventory
from stead.store import inventories, providers, resource_classes, traits
from stead.store.feed.changes import changes_since
from tests.rooms.store.books import Books, claim_of, fresh_custom, fresh_uuid, picture, reloaded
from tests.rooms.store.protocol import state_cases, tree_cases
from tests.rooms.store.protocol.interleaving import Case, interleavings, orders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


pytestmark = pytest.mark.timeout(300)  # a write comes between every two statements of another


@pytest.fixture(scope="module")
def second(module_books: Books) -> Iterator[Books]:
    """Another service on the same database, which looks only when a test is over."""
    another = Books(module_books.url, upgrade=False)
    yield another
    another.close()


def two_claims_of_the_last_unit(books: Books) -> Case:
    host, first, second = books.provider(VCPU=1), fresh_uuid(), fresh_uuid()
    return Case(
        lambda: books.claim(first, {host: {"VCPU": 1}}, None),
        lambda: books.claim(second, {host: {"VCPU": 1}}, None),
        lambda: (books.held(first) != {}, books.held(second) != {}, books.used(host), books.generation(host)),
    )


def two_claims_for_one_new_consumer(books: Books) -> Case:
    """There is room for one: whoever is second hears that its consumer is known, not that there is no room."""
    host, consumer = books.provider(VCPU=3), fresh_uuid()

    def claim() -> object:
        return books.claim(consumer, {host: {"VCPU": 2}}, None)

    return Case(claim, claim, lambda: (books.held(consumer) != {}, books.used(host), books.generation(host)))


def a_claim_and_a_claim_by_another_service(books: Books) -> Case:
    host, first, second = books.provider(VCPU=2), fresh_uuid(), fresh_uuid()
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})  # so that the sum is kept

    def claim_elsewhere() -> bool:
        fitted = books.claim_elsewhere(second, host, 0, 1)
        books.service.write(lambda tx: tx.touch(providers.ids_by_uuid(tx.connection, [host]).values()))  # to be seen
        return fitted

    return Case(
        lambda: books.claim(first, {host: {"VCPU": 1}}, None),
        claim_elsewhere,
        lambda: (books.held(first) != {}, books.held(second) != {}, books.used(host), books.generation(host)),
    )


def a_release_and_a_claim_by_another_service(books: Books) -> Case:
    host, first, second = books.provider(VCPU=4), fresh_uuid(), fresh_uuid()
    books.claim(first, {host: {"VCPU": 1}})

    def claim_elsewhere() -> bool:
        fitted = books.claim_elsewhere(second, host, 0, 2)
        books.service.write(lambda tx: tx.touch(providers.ids_by_uuid(tx.connection, [host]).values()))
        return fitted

    return Case(lambda: books.release(first), claim_elsewhere, lambda: (books.used(host), books.generation(host)))


def a_claim_and_new_traits(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    generation = books.generation(host)
    return Case(
        lambda: books.claim(consumer, {host: {"VCPU": 2}}),
        lambda: books.service.write(traits.replace, host, ["HW_NUMA_ROOT"], generation),
        lambda: (books.used(host), books.generation(host)),
    )


def a_release_and_new_traits(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    books.claim(consumer, {host: {"VCPU": 1}})
    generation = books.generation(host)
    return Case(
        lambda: books.release(consumer),
        lambda: books.service.write(traits.replace, host, ["HW_NUMA_ROOT"], generation),
        lambda: (books.used(host), books.generation(host)),
    )


def two_claims_of_overlapping_providers(books: Books) -> Case:
    a, b, c = sorted(books.provider(VCPU=2, MEMORY_MB=4) for _ in range(3))
    first, second = fresh_uuid(), fresh_uuid()
    return Case(
        lambda: books.claim(first, {a: {"VCPU": 1}, b: {"VCPU": 1, "MEMORY_MB": 3}, c: {"VCPU": 2}}),
        lambda: books.claim(second, {c: {"MEMORY_MB": 4}, b: {"MEMORY_MB": 1}, a: {"VCPU": 1}}),
        lambda: [(books.used(p, "VCPU"), books.used(p, "MEMORY_MB"), books.generation(p)) for p in (a, b, c)],
    )


def two_first_claims_of_one_consumer(books: Books) -> Case:
    a, b, consumer = books.provider(VCPU=4), books.provider(VCPU=4), fresh_uuid()
    return Case(
        lambda: books.claim(consumer, {a: {"VCPU": 1}}, None),
        lambda: books.claim(consumer, {b: {"VCPU": 2}}, None),
        lambda: (books.used(a), books.used(b), books.consumer_generation(consumer)),
    )


def two_first_claims_of_the_same_two_consumers(books: Books) -> Case:
    a, b = books.provider(VCPU=9), books.provider(VCPU=9)
    first, second = sorted((fresh_uuid(), fresh_uuid()))
    claim = books.service.claim
    return Case(
        lambda: claim([claim_of(first, {a: {"VCPU": 1}}), claim_of(second, {a: {"VCPU": 2}})]),
        lambda: claim([claim_of(second, {b: {"VCPU": 3}}), claim_of(first, {b: {"VCPU": 4}})]),
        lambda: (books.used(a), books.used(b), books.consumer_generation(first), books.consumer_generation(second)),
    )


def two_next_claims_of_one_consumer(books: Books) -> Case:
    a, b, c, consumer = *(books.provider(VCPU=4) for _ in range(3)), fresh_uuid()
    books.claim(consumer, {a: {"VCPU": 1}}, None)
    return Case(
        lambda: books.claim(consumer, {b: {"VCPU": 2}}, 1),
        lambda: books.claim(consumer, {c: {"VCPU": 3}}, 1),
        lambda: (*map(books.used, (a, b, c)), books.consumer_generation(consumer)),
    )


def a_first_claim_and_an_unchecked_release(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    return Case(
        lambda: books.claim(consumer, {host: {"VCPU": 1}}, None),
        lambda: books.release(consumer),
        lambda: (books.used(host), books.consumer_generation(consumer)),
    )


def a_first_claim_and_a_claim_of_nothing(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    return Case(
        lambda: books.claim(consumer, {host: {"VCPU": 1}}, None),
        lambda: books.claim(consumer, {}, None),
        lambda: (books.used(host), books.consumer_generation(consumer), books.generation(host)),
    )


def a_move_and_a_release_of_one_consumer(books: Books) -> Case:
    a, b, consumer = books.provider(VCPU=4), books.provider(VCPU=4), fresh_uuid()
    books.claim(consumer, {a: {"VCPU": 1}}, None)
    return Case(
        lambda: books.claim(consumer, {b: {"VCPU": 2}}, 1),
        lambda: books.release(consumer),
        lambda: (books.used(a), books.used(b), books.consumer_generation(consumer)),
    )


def a_claim_and_the_deletion_of_its_provider(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    return Case(
        lambda: books.claim(consumer, {host: {"VCPU": 1}}),
        lambda: books.drop(host),
        lambda: (books.knows(host), books.held(consumer) != {}),
    )


def a_claim_and_the_deletion_of_its_inventory(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4, DISK_GB=10), fresh_uuid()
    return Case(
        lambda: books.claim(consumer, {host: {"VCPU": 1}}),
        lambda: books.service.write(inventories.delete_one, host, "VCPU"),
        lambda: (books.held(consumer) != {}, books.generation(host)),
    )


def a_claim_and_a_shrinking_inventory(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    books.claim(fresh_uuid(), {host: {"VCPU": 2}})
    generation = books.generation(host)
    return Case(
        lambda: books.claim(consumer, {host: {"VCPU": 2}}),
        lambda: books.service.write(inventories.replace_all, host, {"VCPU": Inventory(2)}, generation),
        lambda: (books.held(consumer) != {}, books.used(host), books.generation(host)),
    )


def two_inventories_at_one_generation(books: Books) -> Case:
    host = books.provider(VCPU=4)
    generation = books.generation(host)
    replace = inventories.replace_all
    return Case(
        lambda: books.service.write(replace, host, {"VCPU": Inventory(1)}, generation),
        lambda: books.service.write(replace, host, {"VCPU": Inventory(2)}, generation),
        lambda: (books.generation(host), books.scalar("SELECT total FROM inventories ORDER BY id DESC LIMIT 1")),
    )


def two_additions_of_one_class(books: Books) -> Case:
    host = books.provider()
    return Case(
        lambda: books.service.write(inventories.add, host, "VCPU", Inventory(1)),
        lambda: books.service.write(inventories.add, host, "VCPU", Inventory(1)),
        lambda: books.generation(host),
    )


def a_new_child_and_the_deletion_of_its_parent(books: Books) -> Case:
    parent, child = books.provider(), fresh_uuid()
    return Case(
        lambda: books.service.write(providers.create, child, child, parent).root == parent,
        lambda: books.drop(parent),
        lambda: (books.knows(parent), books.knows(child)),
    )


def a_new_child_and_the_move_of_its_parent(books: Books) -> Case:
    root, other, child = books.provider(), books.provider(), fresh_uuid()
    parent = books.provider(parent=root)
    return Case(
        lambda: books.service.write(providers.create, child, child, parent) is None,
        lambda: books.move(parent, other).root == other,
        lambda: root_of(books, child) == other,
    )


def root_of(books: Books, uuid: str) -> str | None:
    snapshot = books.service.snapshot()
    slot = snapshot.find(uuid)
    return None if slot is None else snapshot.provider(slot).root


def two_moves_that_would_close_a_loop(books: Books) -> Case:
    a, b = books.provider(), books.provider()
    return Case(lambda: books.move(a, b).root == b, lambda: books.move(b, a).root == a, lambda: root_of(books, a) == a)


def two_moves_that_would_close_a_loop_far_below(books: Books) -> Case:
    root = books.provider()
    a, b = books.provider(parent=root), books.provider(parent=root)
    below_a, below_b = books.provider(parent=a), books.provider(parent=b)
    return Case(
        lambda: books.move(a, below_b).root == root,
        lambda: books.move(b, below_a).root == root,
        lambda: [root_of(books, uuid) == root for uuid in (a, b, below_a, below_b)],
    )


def two_moves_of_one_branch(books: Books) -> Case:
    a, b, c, root = (books.provider() for _ in range(4))
    branch = books.provider(parent=root)
    leaf = books.provider(parent=branch)
    where = {a: "a", b: "b", c: "c", root: "root"}
    return Case(
        lambda: where[books.move(branch, a).root],
        lambda: where[books.move(branch, b).root],
        lambda: [where[root_of(books, uuid) or ""] for uuid in (branch, leaf)],
    )


def a_move_and_the_deletion_of_its_target(books: Books) -> Case:
    a, b = books.provider(), books.provider()
    return Case(lambda: books.move(a, b).root == b, lambda: books.drop(b), lambda: root_of(books, a) == a)


def a_move_and_the_move_of_its_target(books: Books) -> Case:
    a, b, c = books.provider(), books.provider(), books.provider()
    return Case(
        lambda: books.move(a, b).parent == b, lambda: books.move(b, c).root == c, lambda: root_of(books, a) == c
    )


def two_renames_to_one_name(books: Books) -> Case:
    a, b, name = books.provider(), books.provider(), str(uuid4())
    return Case(
        lambda: books.rename(a, name).name == name,
        lambda: books.rename(b, name).name == name,
        lambda: books.scalar("SELECT COUNT(*) FROM resource_providers WHERE name = :name", name=name),
    )


def two_renames_of_one_provider(books: Books) -> Case:
    host, tokens = books.provider(), list[str]()

    def rename_and_look() -> bool:
        books.rename(host, f"other {host}")
        tokens.append(books.service.read(changes_since, None).token)
        return True

    def look() -> object:
        details = books.service.read(changes_since, tokens[-1]).details.get(host)
        named = books.scalar("SELECT name FROM resource_providers WHERE uuid = :uuid", uuid=host)
        return named.split()[0], details is not None and "name" in details.parts

    return Case(lambda: books.rename(host, f"provider {host}").name == f"provider {host}", rename_and_look, look)


def two_creations_of_one_provider(books: Books) -> Case:
    uuid = fresh_uuid()
    return Case(
        lambda: books.service.write(providers.create, uuid, f"one {uuid}", None).uuid == uuid,
        lambda: books.service.write(providers.create, uuid, f"other {uuid}", None).uuid == uuid,
        lambda: books.scalar("SELECT name FROM resource_providers WHERE uuid = :uuid", uuid=uuid).split()[0],
    )


def a_new_inventory_and_the_deletion_of_its_class(books: Books) -> Case:
    host, name = books.provider(), fresh_custom()
    books.service.write(resource_classes.create, name)
    return Case(
        lambda: books.service.write(inventories.add, host, name, Inventory(1)),
        lambda: books.service.write(resource_classes.delete, name),
        lambda: name in books.service.snapshot().class_names.by_name,
    )


def a_claim_and_the_renaming_of_its_class(books: Books) -> Case:
    name, new, consumer = fresh_custom(), fresh_custom("RENAMED"), fresh_uuid()
    books.service.write(resource_classes.create, name)
    host = books.provider(**{name: 4})
    return Case(
        lambda: books.claim(consumer, {host: {name: 1}}),
        lambda: books.service.write(resource_classes.rename, name, new),
        lambda: books.held(consumer) == {host: {new: 1}},
    )


def two_creations_of_one_class(books: Books) -> Case:
    name = fresh_custom()
    return Case(
        lambda: books.service.write(resource_classes.create, name),
        lambda: books.service.write(resource_classes.ensure, name),
        lambda: books.scalar("SELECT COUNT(*) FROM resource_classes WHERE name = :name", name=name),
    )


def two_creations_of_one_trait(books: Books) -> Case:
    name = fresh_custom()
    return Case(
        lambda: books.service.write(traits.create, name),
        lambda: books.service.write(traits.create, name),
        lambda: books.scalar("SELECT COUNT(*) FROM traits WHERE name = :name", name=name),
    )


def a_new_association_and_the_deletion_of_its_trait(books: Books) -> Case:
    host, name = books.provider(), fresh_custom()
    books.service.write(traits.create, name)
    return Case(
        lambda: books.service.write(traits.replace, host, [name, "HW_NUMA_ROOT"], 0),
        lambda: books.service.write(traits.delete, name),
        lambda: (name in books.service.snapshot().trait_names.by_name, books.generation(host)),
    )


def two_sets_of_traits_at_one_generation(books: Books) -> Case:
    host = books.provider()
    return Case(
        lambda: books.service.write(traits.replace, host, ["HW_NUMA_ROOT"], 0),
        lambda: books.service.write(traits.replace, host, ["COMPUTE_NODE"], 0),
        lambda: books.generation(host),
    )


def two_memberships_in_one_new_aggregate(books: Books) -> Case:
    a, b, aggregate = books.provider(), books.provider(), fresh_uuid()
    return Case(
        lambda: books.aggregate(a, aggregate),
        lambda: books.aggregate(b, aggregate),
        lambda: books.scalar("SELECT COUNT(*) FROM placement_aggregates WHERE uuid = :uuid", uuid=aggregate),
    )


def a_reshape_and_a_claim(books: Books) -> Case:
    host, consumer, late = books.provider(VCPU=4), fresh_uuid(), fresh_uuid()
    numa = books.provider(parent=host)
    books.claim(consumer, {host: {"VCPU": 2}})
    shapes = {host: books.shape(host), numa: books.shape(numa, VCPU=4)}
    return Case(
        lambda: books.reshape(shapes, {consumer: {numa: {"VCPU": 2}}}),
        lambda: books.claim(late, {host: {"VCPU": 1}}),
        lambda: (books.held(consumer) == {host: {"VCPU": 2}}, books.held(late) != {}, books.generation(numa)),
    )


def a_reshape_and_a_release(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    numa = books.provider(parent=host)
    books.claim(consumer, {host: {"VCPU": 2}})
    shapes = {host: books.shape(host), numa: books.shape(numa, VCPU=4)}
    return Case(
        lambda: books.reshape(shapes, {consumer: {numa: {"VCPU": 2}}}),
        lambda: books.release(consumer),
        lambda: (books.held(consumer) != {}, books.used(numa), books.generation(host), books.generation(numa)),
    )


def a_reshape_and_the_deletion_of_a_provider(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    numa = books.provider(parent=host)
    books.claim(consumer, {host: {"VCPU": 2}})
    shapes = {host: books.shape(host), numa: books.shape(numa, VCPU=4)}
    return Case(
        lambda: books.reshape(shapes, {consumer: {numa: {"VCPU": 2}}}),
        lambda: books.drop(numa),
        lambda: (books.held(consumer) == {host: {"VCPU": 2}}, books.knows(numa)),
    )


CASES = (
    [
        case
        for name, case in list(globals().items())
        if name.startswith(("a_", "two_")) and getattr(case, "__module__", "") == __name__
    ]
    + tree_cases.CASES
    + state_cases.CASES
)


# Two of a kind need not be swapped.
ORDERED = [(case, False) for case in CASES] + [(case, True) for case in CASES if case.__name__.startswith("a_")]


@pytest.mark.parametrize(
    ("case", "swapped"), ORDERED, ids=[case.__name__ + "_swapped" * swapped for case, swapped in ORDERED]
)
def test_what_comes_between_is_before_or_after(
    books: Books, second: Books, case: Callable[[Books], Case], swapped: bool
) -> None:
    def make() -> Case:
        return case(books).swapped() if swapped else case(books)

    allowed = orders(make)
    tried = 0
    for statement, end in interleavings(books, make):
        tried += 1
        assert end in allowed, f"the second came after statement {statement} of the first"
    assert tried
    assert picture(second.service.snapshot()) == reloaded(books)
