"""A cluster that is written to on all its nodes: whatever comes from another node is before a write or after it."""

from __future__ import annotations

import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.store import providers
from tests.databases import required
from tests.rooms.store.books import Books, faults, fresh_uuid, picture, reloaded
from tests.rooms.store.protocol.interleaving import Case, orders, outcome
from tests.rooms.store.protocol.test_interleavings import CASES, ORDERED
from tests.servers.galera import cluster
from tests.servers.programs import Unavailable
from tests.system.torture.checker import Unexplained
from tests.system.torture.galera import ClusteredDatabase, galera_site
from tests.system.torture.run import play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead.store.protocol.store import Store
    from tests.system.torture.site import Site


pytestmark = [pytest.mark.timeout(600), pytest.mark.torture]  # starts clusters

SECONDS = 10.0
ROUNDS = 6
PATIENCE_SECONDS = 60.0


def cannot_be_had(reason: Unavailable) -> None:
    (pytest.fail if "galera" in required() else pytest.skip)(f"no galera: {reason}")


@pytest.fixture(scope="module")
def nodes() -> Iterator[ClusteredDatabase]:
    with tempfile.TemporaryDirectory(prefix="stead-galera-") as place:
        try:
            with cluster(Path(place) / "apt.lock") as members:
                database = ClusteredDatabase(members)
                yield database
                database.close()
        except Unavailable as reason:
            cannot_be_had(reason)


class Elsewhere:
    """A store that is the first node's to the thread that made it, and the second node's to all others."""

    def __init__(self, here: Store, there: Store) -> None:
        self._mine = threading.get_ident()
        self._here, self._there = here, there

    def __getattr__(self, name: str) -> Any:
        return getattr(self._here if threading.get_ident() == self._mine else self._there, name)


@pytest.fixture(scope="module")
def both(nodes: ClusteredDatabase) -> Iterator[Books]:
    """Books that the thread of the tests keeps on one node, and every other thread on another."""
    books = Books(nodes.members[0].own_url)
    there = Books(nodes.members[1].own_url, upgrade=False)
    books.there = there  # type: ignore[attr-defined]  # for those who look at both
    here = books.service._store
    books.service._store = Elsewhere(here, there.store)  # type: ignore[assignment]  # it does what a store does
    yield books
    assert faults(there) == {}
    assert picture(there.service.snapshot()) == reloaded(there)
    for each in (there, books):
        each.close()


def in_between(books: Books, case: Case, after: int) -> Any:
    """The end, if the second write comes from another node after so many statements of the first.

    Before the first one's COMMIT counts as one more. None: it has not so many.
    """
    me, steps, results = threading.get_ident(), 0, []

    def step(*_: object) -> None:
        nonlocal steps
        if threading.get_ident() == me:
            steps += 1
            if steps == after:
                second = threading.Thread(target=lambda: results.append(outcome(case.second)))
                second.start()
                second.join(PATIENCE_SECONDS)

    with stepping(books.store, step):
        first = outcome(case.first)
    if steps < after:
        return None
    assert results, "the second write failed in a way no client should see, or never ended"
    return first, results[0], case.seen()


@contextmanager
def stepping(store: Store, step: Callable[..., None]) -> Iterator[None]:
    for event in ("after_cursor_execute", "commit"):
        sa.event.listen(store.writer, event, step)
    try:
        yield
    finally:
        for event in ("after_cursor_execute", "commit"):
            sa.event.remove(store.writer, event, step)


def at_once(books: Books, case: Case) -> Any:
    """The end, if both writes, each on its node, come to their first COMMIT before either of them does it."""
    meeting = threading.Barrier(2)
    met = threading.local()

    def meet(_connection: object) -> None:
        if not getattr(met, "already", False):
            met.already = True
            with suppress(threading.BrokenBarrierError):  # the other was refused, and does not come
                meeting.wait(2)

    stores = (books.store, books.there.store)  # type: ignore[attr-defined]  # this test's books have a second node
    results: list[Any] = []
    second = threading.Thread(target=lambda: results.append(outcome(case.second)))
    for store in stores:
        sa.event.listen(store.writer, "commit", meet)
    try:
        second.start()
        first = outcome(case.first)
        meeting.abort()
        second.join(PATIENCE_SECONDS)
    finally:
        for store in stores:
            sa.event.remove(store.writer, "commit", meet)
    assert results, "the second write failed in a way no client should see, or never ended"
    return first, results[0], case.seen()


def a_claim_and_a_release_by_somebody_else(books: Books) -> Case:
    """They collide in no generation, only in what is taken; there is room for the claim either way."""
    host, one, other = books.provider(VCPU=8), fresh_uuid(), fresh_uuid()
    books.claim(other, {host: {"VCPU": 2}})
    return Case(
        lambda: books.claim(one, {host: {"VCPU": 3}}, None),
        lambda: books.release(other),
        lambda: (books.used(host), books.generation(host)),
    )


def a_claim_and_a_release_that_makes_room(books: Books) -> Case:
    host, one, other = books.provider(VCPU=4), fresh_uuid(), fresh_uuid()
    books.claim(other, {host: {"VCPU": 2}})
    return Case(
        lambda: books.claim(one, {host: {"VCPU": 3}}, None),
        lambda: books.release(other),
        lambda: (books.held(one) != {}, books.used(host)),
    )


def two_releases(books: Books) -> Case:
    host, one, other = books.provider(VCPU=8), fresh_uuid(), fresh_uuid()
    books.claim(one, {host: {"VCPU": 2}})
    books.claim(other, {host: {"VCPU": 3}})
    return Case(lambda: books.release(one), lambda: books.release(other), lambda: books.used(host))


def a_claim_elsewhere_and_a_release(books: Books) -> Case:
    """A consumer that leaves a provider raises no generation there."""
    a, b, one, other = books.provider(VCPU=8), books.provider(VCPU=8), fresh_uuid(), fresh_uuid()
    books.claim(one, {a: {"VCPU": 2}})
    books.claim(other, {a: {"VCPU": 3}})
    return Case(
        lambda: books.claim(one, {b: {"VCPU": 2}}),
        lambda: books.release(other),
        lambda: (books.used(a), books.used(b), books.generation(a)),
    )


def a_deletion_and_a_new_child(books: Books) -> Case:
    parent, child = books.provider(), fresh_uuid()
    return Case(
        lambda: books.drop(parent),
        lambda: books.service.write(providers.create, child, child, parent) and None,
        lambda: (books.knows(parent), books.knows(child)),
    )


OURS = [
    a_claim_and_a_release_by_somebody_else,
    a_claim_and_a_release_that_makes_room,
    two_releases,
    a_claim_elsewhere_and_a_release,
    a_deletion_and_a_new_child,
]
NOT_STEAD_S = ("a_claim_and_a_claim_by_another_service", "a_release_and_a_claim_by_another_service")
ALL = [
    *((case, swapped) for case in OURS for swapped in (False, True)),
    *((case, swapped) for case, swapped in ORDERED if case.__name__ not in NOT_STEAD_S),
]
assert len(CASES) > 30, "the cases of tests/rooms/store/protocol are not found any more"


@pytest.mark.parametrize(("case", "swapped"), ALL, ids=[case.__name__ + "_swapped" * swapped for case, swapped in ALL])
def test_what_another_node_writes_is_before_or_after(both: Books, case: Callable[[Books], Case], swapped: bool) -> None:
    def make() -> Case:
        return case(both).swapped() if swapped else case(both)

    allowed = orders(make)
    statement = 1
    while (found := in_between(both, make(), statement)) is not None:
        assert found in allowed, f"the second came after statement {statement} of the first"
        statement += 1
    assert statement > 1
    for _ in range(3):
        assert at_once(both, make()) in allowed, "both were committed at once"
    assert faults(both) == {}


@contextmanager
def a_site(bug: str | None = None) -> Iterator[Site]:
    with ExitStack() as ends:
        try:
            tortured = ends.enter_context(galera_site(bug=bug))
        except Unavailable as reason:
            cannot_be_had(reason)
        yield tortured


def test_some_order_explains_what_clients_of_all_nodes_are_told() -> None:
    with a_site() as tortured:
        played = play(tortured, seconds=SECONDS, seed=1, faults=False)
        tortured.database.require_same_books()  # type: ignore[attr-defined]  # it is a clustered one
    assert played.answers["Claim done"], played.told()


def test_without_locks_and_swaps_certification_alone_is_not_enough() -> None:
    def rounds(tortured: Site) -> None:
        for seed in range(ROUNDS):
            play(tortured, seconds=SECONDS, seed=seed, faults=False)

    with a_site("without_locks_and_swaps") as tortured, pytest.raises(Unexplained):
        rounds(tortured)
