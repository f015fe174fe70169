"""A claim by query ends at once where another service, which writes no change rows, has made the snapshot stale."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from stead.domain.claim import ClaimRequest
from stead.domain.errors import NothingFits, UnknownResourceClass
from stead.domain.request import CandidateRequest, RequestGroup
from stead.store import resource_classes
from tests.rooms.store.books import BUMP_ELSEWHERE, PROJECT, USER, Books, fresh_custom, fresh_uuid
from tests.rooms.store.protocol.test_clock import id_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead.domain.claim import Outcome

OF_HOST = " WHERE resource_provider_id = :id"


@pytest.fixture
def site(ready_database_url: str) -> Iterator[Site]:
    site = Site(ready_database_url)
    yield site
    site.books.close()


class Site:
    """Hosts of one class, and what another service may do to one of them."""

    def __init__(self, url: str) -> None:
        # A claim that never ends by itself ends here, long after one that does.
        self.books = Books(url, write_timeout=20.0)
        self.resource_class = fresh_custom()
        self.books.service.write(resource_classes.create, self.resource_class)
        self.class_id = self.books.scalar("SELECT id FROM resource_classes WHERE name = :n", n=self.resource_class)

    def host(self) -> str:
        uuid = self.books.provider(**{self.resource_class: 8})
        self.books.service.snapshot()
        return uuid

    def claim(self) -> Outcome:
        request = CandidateRequest((RequestGroup("", {self.resource_class: 4}),))
        wish = ClaimRequest(fresh_uuid(), request, PROJECT, USER, "INSTANCE", None)
        return self.books.service.claim_by_query([wish], distinct_roots=False, explained=False)

    def execute(self, host: str, *statements: str) -> None:
        for statement in statements:
            self.books.execute(statement, id=id_of(self.books, host))

    def take(self, host: str) -> None:
        assert self.books.claim_elsewhere(fresh_uuid(), host, self.class_id, 6)

    def lower_the_total(self, host: str) -> None:
        self.execute(host, "UPDATE inventories SET total = 2" + OF_HOST, BUMP_ELSEWHERE)

    def reserve(self, host: str) -> None:
        self.execute(host, "UPDATE inventories SET reserved = 6" + OF_HOST, BUMP_ELSEWHERE)

    def change_the_units(self, host: str) -> None:
        self.execute(host, "UPDATE inventories SET step_size = 3" + OF_HOST, BUMP_ELSEWHERE)

    def remove_the_inventory(self, host: str) -> None:
        self.execute(host, "DELETE FROM inventories" + OF_HOST, BUMP_ELSEWHERE)

    def delete(self, host: str) -> None:
        self.execute(
            host,
            "DELETE FROM inventories" + OF_HOST,
            "UPDATE resource_providers SET root_provider_id = NULL WHERE id = :id",  # or InnoDB keeps its own root
            "DELETE FROM resource_providers WHERE id = :id",
        )

    def replace(self, host: str) -> None:
        """The uuid belongs to another row afterwards, without inventory."""
        name = self.books.scalar("SELECT name FROM resource_providers WHERE uuid = :u", u=host)
        self.delete(host)
        self.books.execute(
            "INSERT INTO resource_providers (uuid, name, generation) VALUES (:uuid, :name, 0)", uuid=host, name=name
        )
        self.execute(host, "UPDATE resource_providers SET root_provider_id = id WHERE id = :id")


DEEDS = [
    Site.take,
    Site.lower_the_total,
    Site.reserve,
    Site.change_the_units,
    Site.remove_the_inventory,
    Site.delete,
    Site.replace,
]
each_deed = pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)


@each_deed
def test_the_only_host_no_longer_fits(site: Site, deed: Callable[[Site, str], None]) -> None:
    deed(site, site.host())
    with pytest.raises(NothingFits):
        site.claim()


@each_deed
def test_another_host_is_found_at_the_second_try(site: Site, deed: Callable[[Site, str], None]) -> None:
    """The first host is the best one for a search without an order, until the other service changed it."""
    stale, other = site.host(), site.host()
    deed(site, stale)
    outcome = site.claim()
    assert list(outcome.granted[0].allocations) == [other]
    assert outcome.tries <= 2


def test_a_host_that_stead_changes_as_well_is_reloaded(site: Site) -> None:
    """Each claim that fits changes the snapshot of the host, but not the inventory in it."""
    host = site.host()
    site.lower_the_total(host)
    site.books.claim(fresh_uuid(), {host: {site.resource_class: 1}})
    with pytest.raises(NothingFits):
        site.claim()


def test_the_class_is_gone(site: Site) -> None:
    site.remove_the_inventory(site.host())
    site.books.execute("DELETE FROM resource_classes WHERE id = :id", id=site.class_id)
    with pytest.raises(UnknownResourceClass):
        site.claim()
    assert site.resource_class not in site.books.service.snapshot().class_names.by_name


def test_claims_at_the_same_time_reload_it_as_well(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="stead")
    site.take(site.host())
    with ThreadPoolExecutor(8) as pool:
        errors = [claim.exception() for claim in [pool.submit(site.claim) for _ in range(8)]]
    assert {type(error) for error in errors} == {NothingFits}
    assert 1 <= sum("another service changed" in record.message for record in caplog.records) <= len(errors)


def test_a_lost_race_between_claims_of_stead_reloads_nothing(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="stead")
    for _ in range(3):
        site.host()
    with ThreadPoolExecutor(8) as pool:
        errors = [claim.exception() for claim in [pool.submit(site.claim) for _ in range(8)]]
    assert sum(error is None for error in errors) == 6
    assert not any("another service changed" in record.message for record in caplog.records)
