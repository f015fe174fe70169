"""What a process counts for the people who look at its page."""

from __future__ import annotations

from stead.observe.doings import Doings
from stead.observe.metrics import Notes


def request(status: int, claims: int = 0, error: str | None = None) -> Notes:
    notes = Notes()
    notes.status, notes.claims, notes.error = status, claims, error
    return notes


def test_claims_are_counted_and_their_rate_forgets_the_old_ones() -> None:
    now = [1000.0]
    doings = Doings(lambda: now[0])
    doings({}, request(204, claims=30))
    now[0] += 10
    doings({}, request(204, claims=20))
    doings({}, request(200))
    assert doings.done().written == 50
    assert doings.done().per_second == 5
    now[0] += 55
    assert doings.done().per_second == 20 / 60
    now[0] += 60
    assert doings.done().per_second == 0
    assert doings.done().written == 50


def test_refusals_are_counted_by_reason() -> None:
    doings = Doings()
    for error in ("CapacityExceeded", "CapacityExceeded", "ConsumerConflict"):
        doings({}, request(409, claims=1, error=error))
    doings({}, request(400, claims=1))
    doings({}, request(409, error="ProviderInUse"))
    doings({}, request(404))
    doings.retried("race")
    doings.refused("queue_full")
    done = doings.done()
    assert done.refused_claims == {"capacity_exceeded": 2, "consumer_conflict": 1, "400": 1}
    assert (done.conflicts, done.retries, done.refused_requests) == (
        {"provider_in_use": 1},
        {"race": 1},
        {"queue_full": 1},
    )
    assert done.written == 0
