"""Documents of provider trees beside other writes, for `test_interleavings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.domain.provider import Inventory
from stead.domain.provider_trees import UNSTATED, DescribedProvider, TreeDocument
from stead.store import inventories, providers, resource_classes, traits
from tests.rooms.store.books import Books, fresh_custom, fresh_uuid
from tests.rooms.store.protocol.interleaving import Case

if TYPE_CHECKING:
    from stead.domain.provider_trees import TreePlan


def described(uuid: str | None, **fields: Any) -> DescribedProvider:
    """A provider of a document; its inventories by class are totals."""
    totals = fields.pop("totals", None)
    return DescribedProvider(
        "here",
        uuid,
        fields.pop("name", uuid),
        fields.pop("parent", UNSTATED),
        fields.pop("generation", None),
        None if totals is None else {name: Inventory(total) for name, total in totals.items()},
        fields.pop("traits", None),
        fields.pop("aggregates", None),
        fresh_uuid(),
        **fields,
    )


def put(books: Books, *described_providers: DescribedProvider, **options: bool) -> list[list[str]]:
    """Write a document; returns what was done with each of its providers."""
    plan: TreePlan = books.service.replace_trees(TreeDocument(described_providers, **options))
    return [planned.changes for planned in plan.providers]


def a_document_and_a_claim(books: Books) -> Case:
    host, other, consumer = books.provider(VCPU=4), books.provider(), fresh_uuid()
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    return Case(
        lambda: put(books, described(host, totals={"VCPU": 2}), described(other, traits=frozenset({"HW_NUMA_ROOT"}))),
        lambda: books.claim(consumer, {host: {"VCPU": 2}}),
        lambda: (books.used(host), books.generation(host), books.generation(other)),
    )


def a_document_and_a_release(books: Books) -> Case:
    host, consumer = books.provider(VCPU=4), fresh_uuid()
    books.claim(consumer, {host: {"VCPU": 3}})
    return Case(
        lambda: put(books, described(host, totals={"VCPU": 3})),
        lambda: books.release(consumer),
        lambda: (books.used(host), books.generation(host)),
    )


def a_document_that_prunes_and_a_claim(books: Books) -> Case:
    host, consumer = books.provider(), fresh_uuid()
    numa = books.provider(parent=host, VCPU=4)
    return Case(
        lambda: put(books, described(host, traits=frozenset({"HW_NUMA_ROOT"})), prune=True, keep_used=True),
        lambda: books.claim(consumer, {numa: {"VCPU": 1}}),
        lambda: (books.knows(numa), books.held(consumer) != {}, books.generation(host)),
    )


def a_document_that_prunes_and_a_new_child(books: Books) -> Case:
    host, child = books.provider(), fresh_uuid()
    numa = books.provider(parent=host)
    return Case(
        lambda: put(books, described(host, traits=frozenset({"HW_NUMA_ROOT"})), prune=True),
        lambda: books.service.write(providers.create, child, child, numa).root == host,
        lambda: (books.knows(numa), books.knows(child), books.generation(host)),
    )


def a_document_that_creates_and_the_deletion_of_the_parent(books: Books) -> Case:
    host, child = books.provider(), fresh_uuid()
    return Case(
        lambda: put(books, described(child, parent=host, totals={"VCPU": 1})),
        lambda: books.drop(host),
        lambda: (books.knows(host), books.knows(child)),
    )


def a_document_that_moves_and_a_move(books: Books) -> Case:
    first, second, branch = (books.provider() for _ in range(3))
    leaf = books.provider(parent=branch)
    where = {first: "one", second: "other", branch: "branch"}
    return Case(
        lambda: put(books, described(branch, parent=first)),
        lambda: where[books.move(branch, second).root],
        lambda: [where[root_of(books, uuid)] for uuid in (branch, leaf)],
    )


def a_document_and_the_deletion_of_its_trait(books: Books) -> Case:
    host, name = books.provider(), fresh_custom()
    books.service.write(traits.create, name)
    return Case(
        lambda: put(books, described(host, traits=frozenset({name})), create_names=True),
        lambda: books.service.write(traits.delete, name),
        lambda: (name in books.service.snapshot().trait_names.by_name, books.generation(host)),
    )


def a_document_and_the_deletion_of_its_class(books: Books) -> Case:
    host, name = books.provider(), fresh_custom()
    books.service.write(resource_classes.create, name)
    return Case(
        lambda: put(books, described(host, totals={name: 1})),
        lambda: books.service.write(resource_classes.delete, name),
        lambda: (name in books.service.snapshot().class_names.by_name, books.generation(host)),
    )


def a_document_and_an_inventory_at_its_generation(books: Books) -> Case:
    host, other = books.provider(VCPU=4), books.provider()
    generation = books.generation(host)
    return Case(
        lambda: put(
            books,
            described(host, generation=generation),
            described(other, traits=frozenset({"HW_NUMA_ROOT"})),
        ),
        lambda: books.service.write(inventories.replace_all, host, {"VCPU": Inventory(2)}, generation),
        lambda: (books.generation(host), books.generation(other)),
    )


def two_documents_of_the_same_providers(books: Books) -> Case:
    """Each leaves unchanged what the other changes: the end is one of them, not a mixture."""
    first, second = books.provider(VCPU=1), books.provider(VCPU=2)
    total = books.scalar
    return Case(
        lambda: put(books, described(first, totals={"VCPU": 1}), described(second, totals={"VCPU": 1})),
        lambda: put(books, described(first, totals={"VCPU": 2}), described(second, totals={"VCPU": 2})),
        lambda: [
            total(
                "SELECT total FROM inventories i JOIN resource_providers p ON p.id = i.resource_provider_id "
                "WHERE p.uuid = :uuid",
                uuid=uuid,
            )
            for uuid in (first, second)
        ],
    )


def two_documents_that_create_one_tree(books: Books) -> Case:
    root, child = fresh_uuid(), fresh_uuid()

    def create() -> object:
        return put(
            books,
            described(None, name=root, parent=None),
            described(None, name=child, parent=f"name:{root}", aggregates=frozenset({root})),
        )

    return Case(
        create,
        create,
        lambda: books.scalar(
            "SELECT COUNT(*) FROM resource_providers WHERE name IN (:one, :other)", one=root, other=child
        ),
    )


def two_documents_that_exchange_names(books: Books) -> Case:
    first, second = books.provider(), books.provider()

    def exchange(name: str, another: str) -> object:
        return put(books, described(first, name=name), described(second, name=another))

    return Case(
        lambda: exchange(second, first),
        lambda: exchange(second, first),
        lambda: books.scalar("SELECT name FROM resource_providers WHERE uuid = :uuid", uuid=first) == second,
    )


def root_of(books: Books, uuid: str) -> str:
    """The uuid of the root of a provider that exists."""
    snapshot = books.service.snapshot()
    slot = snapshot.find(uuid)
    assert slot is not None
    return snapshot.provider(slot).root


CASES = [
    case
    for name, case in list(globals().items())
    if name.startswith(("a_", "two_")) and getattr(case, "__module__", "") == __name__
]
