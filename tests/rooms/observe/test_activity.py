"""What a process counts for the people who look at its page."""

from __future__ import annotations

from stead.observe.activity import LAST, MOST_BINS, ActivityCounts, Lately, Strip, joined
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


def test_the_strip_has_what_happened_since_the_start_in_a_bounded_number_of_bins() -> None:
    now = [1_000_000.0]
    activity_counts = ActivityCounts(lambda: now[0], lambda: now[0])
    for _ in range(1000):
        activity_counts({}, request(204, claims=2))
        activity_counts({}, request(409, claims=1, error="CapacityExceeded"))
        now[0] += 37
    strip = activity_counts.lately().strip
    assert 1000 * 37 / strip.width <= len(strip.bins) + 1 <= MOST_BINS + 1
    assert [sum(column) for column in zip(*strip.bins.values(), strict=True)] == [2000, 1000]


def test_strips_of_several_workers_are_added_up_over_the_same_time() -> None:
    fine, coarse = Strip(10, {100: (1, 0), 101: (2, 1)}), Strip(40, {25: (5, 5), 26: (1, 0)})
    assert joined([fine, coarse, Strip(10, {})]) == Strip(40, {25: (8, 6), 26: (1, 0)})
    assert joined([fine], 0.0, 10_000.0).width == 160
    assert joined([]) == Strip(10, {})


def test_the_last_refusals_of_each_reason_are_remembered_with_what_was_asked() -> None:
    activity_counts = ActivityCounts()
    rare = request(409, claims=1, error="NothingFits")
    rare.asked, rare.project = (lambda: "resources=VCPU:9"), "p"
    activity_counts({}, rare)
    for _ in range(2 * LAST):
        activity_counts({}, request(409, claims=1, error="CapacityExceeded"))
    empty = request(200)
    empty.candidates, empty.route = 0, "/allocation_candidates"
    activity_counts({"QUERY_STRING": "resources=VCPU:65"}, empty)
    activity_counts({"QUERY_STRING": "x" * 9999}, empty)
    lately = activity_counts.lately()
    others = [event for event in lately.events if event.reason != "capacity_exceeded"]
    assert [(event.reason, event.project, event.query) for event in others] == [
        ("nothing_fits", "p", "resources=VCPU:9"),
        ("no_candidates", "", "resources=VCPU:65"),
        ("no_candidates", "", ""),
    ]
    assert len(lately.events) == LAST + 3
    bins = {str(number): list(pair) for number, pair in lately.strip.bins.items()}
    assert Lately.read(lately.began, [lately.strip.width, bins], [list(event) for event in lately.events]) == lately
