"""``stead-bench claims`` on SQLite: the figures are there, and both sides leave the books in order."""

from collections import Counter
from itertools import pairwise

import pytest

from stead_bench.bare_claims import BareClaims
from stead_bench.claims_site import WORKS, ClaimsSite, make
from tests.bench.conftest import unwatched
from tests.rooms.store.books import Books, faults, fresh_uuid, picture, reloaded

pytestmark = pytest.mark.timeout(240)  # starts servers


def test_claims_are_held_against_bare_commits(bench):
    ran = bench(
        *("claims", "--hosts", "5", "--consumers", "20", "--clients", "1", "--clients", "2"),
        *("--seconds", "0.3", "--rounds", "2"),
    )
    assert ran.code == 0, ran.err
    rates = ran.json["rates"]
    assert [(rate["work"], rate["clients"]) for rate in rates] == [
        (work, number) for work in WORKS for number in (1, 2)
    ]
    for rate in rates:
        assert rate["claims"] > 0
        assert rate["per_second"] > 0
        assert rate["bare_per_second"] > 0
        assert rate["ratio"] > 0
        assert rate["p50_ms"] <= rate["p99_ms"]
        assert rate["bare_p50_ms"] <= rate["bare_p99_ms"]
        assert rate["cpu_ms"] > 0
    assert "bare/Stead" in ran.out


def test_claims_of_the_library_are_held_against_bare_commits(bench):
    ran = bench("claims", "--embedded", "--hosts", "5", "--consumers", "20", "--clients", "1", "--seconds", "0.3")
    assert ran.code == 0, ran.err
    [rate] = ran.json["rates"]
    assert (rate["work"], rate["claims"] > 0, rate["ratio"] > 0) == ("in the process", True, True)


def test_a_database_that_may_lose_commits_is_not_measured(bench, tmp_path, monkeypatch):
    """Else it would be the cache of the disk that is measured."""
    from stead.store.sql.dialects import Database
    from stead_bench import tables

    monkeypatch.setattr(tables, "Database", lambda url, **more: Database(url, **{**more, "sqlite_synchronous": False}))
    ran = bench("claims", "--hosts", "2", "--consumers", "2", "--database", f"sqlite:///{tmp_path}/stead.db")
    assert ran.code == 2
    assert "synchronous" in ran.err


def written(books: Books) -> Counter[str]:
    """Numbers that say how much was written: rows, amounts, generations, ticks."""
    return Counter(
        {
            "allocations": books.scalar("SELECT COUNT(*) FROM allocations"),
            "consumers": books.scalar("SELECT COUNT(*) FROM consumers"),
            "generations": int(books.scalar("SELECT SUM(generation) FROM resource_providers")),
            "sums": books.scalar("SELECT COUNT(*) FROM stead_usage"),
            "used": int(books.scalar("SELECT SUM(used) FROM stead_usage")),
            "generations of sums": int(books.scalar("SELECT SUM(generation) FROM stead_usage")),
            "ticks": int(books.scalar("SELECT SUM(tick) FROM stead_clock")),
            "whole changes": books.scalar("SELECT COUNT(*) FROM stead_provider_change"),
        }
    )


def test_the_bare_program_writes_what_a_claim_writes(database_url):
    """As many rows of the same tables, books that hold, and a tick by which services see it."""
    books = Books(database_url)
    site = ClaimsSite(hosts=3, consumers=7)
    make(books.store, site, unwatched)
    bare = BareClaims(books.store, site.every())
    client = bare.client(0)
    books.claim(fresh_uuid(), {})  # whose owner is known from here on
    for work in WORKS:
        taken = site.taken(work, 1)
        seen = [written(books)]
        client.claim(bare.places(taken))
        assert picture(books.service.snapshot()) == reloaded(books)
        seen.append(written(books))
        books.claim(fresh_uuid(), {provider: dict.fromkeys(classes, 1) for provider, classes in taken.items()})
        seen.append(written(books))
        assert faults(books) == {}
        by_bare, by_stead = ({name: now[name] - then[name] for name in now} for then, now in pairwise(seen))
        assert by_bare == by_stead
        assert by_bare["used"] == by_bare["allocations"] == 3
    client.close()
    books.close()
