"""What a process counts for the people who look at its page."""

from __future__ import annotations

from stead.observe.activity import ActivityCounts
from stead.observe.metrics import Notes


def request(status: int, claims: int = 0, error: str | None = None) -> Notes:
    notes = Notes()
    notes.status, notes.claims, notes.error = status, claims, error
    return notes


def test_claims_are_counted_and_their_rate_forgets_the_old_ones() -> None:
    now = [1000.0]
    activity_counts = ActivityCounts(lambda: now[0])
    activity_counts({}, request(204, claims=30))
    now[0] += 10
    activity_counts({}, request(204, claims=20))
    activity_counts({}, request(200))
    assert activity_counts.done().written == 50
    assert activity_counts.done().per_second == 5
    now[0] += 55
    assert activity_counts.done().per_second == 20 / 60
    now[0] += 60
    assert activity_counts.done().per_second == 0
    assert activity_counts.done().written == 50


def test_refusals_are_counted_by_reason() -> None:
    activity_counts = ActivityCounts()
    for error in ("CapacityExceeded", "CapacityExceeded", "ConsumerConflict"):
        activity_counts({}, request(409, claims=1, error=error))
    activity_counts({}, request(400, claims=1))
    activity_counts({}, request(409, error="ProviderInUse"))
    activity_counts({}, request(404))
    activity_counts.retried("race")
    activity_counts.refused("queue_full")
    done = activity_counts.done()
    assert done.refused_claims == {"capacity_exceeded": 2, "consumer_conflict": 1, "400": 1}
    assert (done.conflicts, done.retries, done.refused_requests) == (
        {"provider_in_use": 1},
        {"race": 1},
        {"queue_full": 1},
    )
    assert done.written == 0
