"""Where locks hold nobody off, as on a Galera cluster those of another node: a write notices what changed.

Source: "The write and refresh protocol", docs/protocol.md (rule 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stead.store import resource_classes
from stead.store.protocol.store import Transaction
from tests.rooms.store.books import fresh_custom
from tests.rooms.store.protocol.interleaving import Case, interleavings, orders, outcome
from tests.rooms.store.protocol.test_interleavings import (
    a_claim_and_the_deletion_of_its_provider,
    two_moves_of_one_branch,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.rooms.store.books import Books


def a_renaming_and_the_deletion_of_a_provider(books: Books) -> Case:
    host = books.provider()
    return Case(
        lambda: books.rename(host, f"renamed {host}") and None, lambda: books.drop(host), lambda: books.knows(host)
    )


def two_renamings_of_one_class(books: Books) -> Case:
    old, first, second = fresh_custom(), fresh_custom("ONE"), fresh_custom("OTHER")
    books.service.write(resource_classes.create, old)

    def seen() -> list[bool]:
        names = {row.name for row in books.service.snapshot().class_names.rows}
        return [name in names for name in (old, first, second)]

    return Case(
        lambda: books.service.write(resource_classes.rename, old, first),
        lambda: books.service.write(resource_classes.rename, old, second),
        seen,
    )


def a_deletion_of_a_provider_and_a_claim(books: Books) -> Case:
    """Without locks it is a matter of chance whether the claim misses the provider or only its inventory."""
    case = a_claim_and_the_deletion_of_its_provider(books)

    def claim() -> Any:
        told = outcome(case.first)
        return "refused" if told in ("UnknownProvider", "NoSuchInventory") else told

    return Case(case.second, claim, case.seen)


@pytest.mark.parametrize(
    "case",
    [
        a_deletion_of_a_provider_and_a_claim,
        a_renaming_and_the_deletion_of_a_provider,
        two_moves_of_one_branch,
        two_renamings_of_one_class,
    ],
    ids=lambda case: case.__name__,
)
def test_without_locks_what_comes_between_is_before_or_after(
    books: Books, case: Callable[[Books], Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = orders(lambda: case(books))

    def lock(_self: Transaction, *_args: Any, **_more: Any) -> None: ...

    monkeypatch.setattr(Transaction, "lock", lock)
    for statement, end in interleavings(books, lambda: case(books)):
        assert end in allowed, f"the second came after statement {statement} of the first"
