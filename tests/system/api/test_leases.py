"""Leases over HTTP: the fields of claims and allocations, renewals, and what older versions see of them.

Source: "Leases", docs/stead-api.md.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from stead.domain.moments import from_text, in_utc
from tests.system.api.client import NEWEST, Answer, Api, Provider, fresh_uuid, holding
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[..., tuple[str, Answer]]

pytestmark = pytest.mark.differs("it has nothing of Stead's own")

OWN, BEFORE = f"{NEWEST}, stead 1.2", f"{NEWEST}, stead 1.1"
NEVER = {"expires_at": None, "on_expiry": None}
HOUR = 3600


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


@pytest.fixture
def host(own: Api) -> Provider:
    return own.create_provider(inventories={"VCPU": 8})


def put(api: Api, host: Provider, consumer: str | None = None, **more: Any) -> tuple[str, Answer]:
    uuid = consumer or fresh_uuid()
    return uuid, api.put(f"/allocations/{uuid}", holding((host, {"VCPU": 1}), **more))


def post(api: Api, host: Provider, consumer: str | None = None, **more: Any) -> tuple[str, Answer]:
    uuid = consumer or fresh_uuid()
    return uuid, api.post("/allocations", {uuid: holding((host, {"VCPU": 1}), **more)})


def claim(api: Api, host: Provider, consumer: str | None = None, **more: Any) -> tuple[str, Answer]:
    uuid = consumer or fresh_uuid()
    query = f"resources=VCPU:1&in_tree={host.uuid}"
    owner = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
    wish = {"consumer_uuid": uuid, "query": query, "consumer_generation": more.pop("generation", None), **owner, **more}
    return uuid, api.post("/claims", {"claims": [wish]})


WRITES = pytest.mark.parametrize("write", [put, post, claim])


def end_of(api: Api, consumer: str) -> dict[str, Any]:
    shown = api.get(f"/allocations/{consumer}").expect(200).json
    return {name: shown[name] for name in ("expires_at", "on_expiry")}


def generation_of(api: Api, consumer: str) -> int:
    generation = api.get(f"/allocations/{consumer}").expect(200).consumer_generation
    assert isinstance(generation, int)
    return generation


class TestWrites:
    @WRITES
    def test_give_an_end_in_seconds(self, own: Api, host: Provider, write: Write) -> None:
        before = int(time.time())
        consumer, answer = write(own, host, lease=HOUR)
        answer.expect(200, 204)
        shown = end_of(own, consumer)
        assert shown["on_expiry"] == "release"
        # The clocks of this machine and of the database are one.
        assert before + HOUR <= from_text(shown["expires_at"]) <= time.time() + HOUR
        if write is claim:
            (granted,) = answer.claims
            assert {name: granted[name] for name in shown} == shown

    @WRITES
    def test_give_an_end_at_a_time(self, own: Api, host: Provider, write: Write) -> None:
        consumer, answer = write(own, host, expires_at="2190-01-01T02:00:00.5+02:00", on_expiry="mark")
        answer.expect(200, 204)
        assert end_of(own, consumer) == {"expires_at": "2190-01-01T00:00:00Z", "on_expiry": "mark"}

    @WRITES
    def test_without_an_end_keep_what_there_is(self, own: Api, host: Provider, write: Write) -> None:
        consumer, _ = write(own, host, lease=HOUR, on_expiry="mark")
        shown = end_of(own, consumer)
        write(own, host, consumer, generation=generation_of(own, consumer))[1].expect(200, 204)
        assert end_of(own, consumer) == shown
        write(own.at(BEFORE), host, consumer, generation=generation_of(own, consumer))[1].expect(200, 204)
        assert end_of(own, consumer) == shown
        forever, _ = write(own, host)
        assert end_of(own, forever) == NEVER

    @WRITES
    @pytest.mark.parametrize("field", ["lease", "expires_at"])
    def test_with_null_have_no_end(self, own: Api, host: Provider, write: Write, field: str) -> None:
        consumer, _ = write(own, host, lease=HOUR)
        write(own, host, consumer, generation=generation_of(own, consumer), **{field: None})[1].expect(200, 204)
        assert end_of(own, consumer) == NEVER

    @WRITES
    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"lease": 0}, "minimum of 1"),
            ({"lease": -1}, "minimum of 1"),
            ({"lease": 2**31}, "maximum"),
            ({"lease": 1.5}, "integer"),
            ({"lease": "60"}, "integer"),
            ({"expires_at": "tomorrow"}, "tomorrow"),
            ({"expires_at": "2190-01-01T00:00:00"}, "date-time"),
            ({"expires_at": "10000-01-01T00:00:00Z"}, "10000"),
            ({"expires_at": "2001-01-01T00:00:00Z"}, "is in the past: 2001-01-01T00:00:00Z"),
            ({"lease": 60, "expires_at": "2190-01-01T00:00:00Z"}, "both"),
            ({"lease": 60, "on_expiry": "explode"}, "explode"),
            ({"on_expiry": "release"}, "without"),
        ],
        ids=str,
    )
    def test_refuse_bad_ends(self, own: Api, host: Provider, write: Write, more: dict[str, Any], words: str) -> None:
        consumer, answer = write(own, host, **more)
        assert answer.refused(400, words)
        assert own.get(f"/allocations/{consumer}").allocations == {}

    @WRITES
    def test_know_no_ends_in_older_versions(self, own: Api, host: Provider, write: Write) -> None:
        for field, value in (("lease", 60), ("expires_at", "2190-01-01T00:00:00Z"), ("on_expiry", "mark")):
            assert write(own.at(BEFORE), host, **{field: value})[1].refused(400, f"'{field}' was unexpected")

    def test_may_repeat_what_a_read_shows(self, own: Api, host: Provider) -> None:
        consumer, _ = put(own, host, lease=HOUR)
        shown = own.get(f"/allocations/{consumer}").json
        own.put(f"/allocations/{consumer}", shown).expect(204)
        assert end_of(own, consumer) == {name: shown[name] for name in NEVER}

    def test_of_a_claim_may_be_repeated(self, own: Api, host: Provider) -> None:
        consumer, first = claim(own, host, lease=HOUR)
        again = claim(own, host, consumer, lease=HOUR)[1].expect(200)
        assert again.tries == 0
        assert again.claims == first.claims


def test_older_versions_show_no_ends(own: Api, host: Provider) -> None:
    consumer, _ = put(own, host, lease=HOUR)
    for version in (NEWEST, BEFORE):
        assert not NEVER.keys() & own.at(version).get(f"/allocations/{consumer}").json.keys()
    (listed,) = own.at(BEFORE).get(f"/consumers?provider={host.uuid}").consumers
    assert not NEVER.keys() & listed.keys()


class TestLists:
    def test_show_ends_and_filter_by_them(self, own: Api, host: Provider) -> None:
        soon, _ = put(own, host, expires_at="2190-01-01T00:00:00Z")
        late, _ = put(own, host, expires_at="2191-01-01T00:00:00Z", on_expiry="mark")
        forever, _ = put(own, host)

        def listed(more: str = "") -> dict[str, Any]:
            answer = own.get(f"/consumers?provider={host.uuid}{more}").expect(200)
            return {each["uuid"]: each["expires_at"] for each in answer.consumers}

        assert listed() == {soon: "2190-01-01T00:00:00Z", late: "2191-01-01T00:00:00Z", forever: None}
        assert listed("&expires_before=2190-01-01T00:00:00Z") == {}
        assert list(listed("&expires_before=2190-01-01T00:00:01Z")) == [soon]
        assert listed("&expires_before=2192-01-01T00:00:00%2B01:00").keys() == {soon, late}
        totals = own.get(f"/consumers?provider={host.uuid}&expires_before=2192-01-01T00:00:00Z&totals=true")
        assert totals.project_totals == {"a-project": {"consumer_count": 2, "usages": {"VCPU": 2}}}

    @pytest.mark.parametrize("value", ["", "tomorrow", "2190-01-01T00:00:00"])
    def test_refuse_bad_times(self, own: Api, value: str) -> None:
        assert own.get(f"/consumers?expires_before={value}").refused(400, "expires_before", code=None) or (
            own.get(f"/consumers?expires_before={value}").status == 400
        )

    def test_of_the_whole_site_are_filtered_too(self, own: Api, host: Provider) -> None:
        soon, _ = put(own, host, expires_at="2190-01-01T00:00:00Z", project=fresh_uuid())
        forever, _ = put(own, host)
        answer = own.get("/consumers?expires_before=2190-01-01T00:00:01Z").expect(200)
        uuids = {each["uuid"] for each in answer.consumers}
        assert soon in uuids
        assert forever not in uuids


class TestChanges:
    def test_show_ends(self, own: Api, host: Provider) -> None:
        token = own.get("/changes").token
        consumer, _ = put(own, host, expires_at="2190-01-01T00:00:00Z")
        forever, _ = put(own, host)
        changed = {each["uuid"]: each for each in own.get(f"/changes?since={token}&timeout=0").consumers}
        assert changed[consumer]["expires_at"] == "2190-01-01T00:00:00Z"
        assert changed[forever]["expires_at"] is None
        before = own.at(BEFORE).get(f"/changes?since={token}&timeout=0").consumers
        assert all("expires_at" not in each for each in before)

    def test_know_nothing_of_renewals(self, own: Api, host: Provider) -> None:
        consumer, _ = put(own, host, lease=HOUR)
        token = own.get("/changes").token
        own.put("/leases", {"leases": [{"consumer_uuid": consumer, "lease": 2 * HOUR}]}).expect(200)
        changed = own.get(f"/changes?since={token}&timeout=0").consumers
        assert consumer not in {each["uuid"] for each in changed}


class TestRenewals:
    def test_move_ends_and_name_the_others(self, own: Api, host: Provider) -> None:
        consumer, _ = put(own, host, lease=60)
        forever, _ = put(own, host)
        unknown = fresh_uuid()
        before = int(time.time())
        asked = [{"consumer_uuid": uuid, "lease": 2 * HOUR} for uuid in (unknown, consumer.upper(), forever)]
        answer = own.put("/leases", {"leases": asked}).expect(200)
        assert answer.json == {"gone": [unknown], "without_lease": [forever]}
        end = from_text(end_of(own, consumer)["expires_at"])
        assert before + 2 * HOUR <= end <= time.time() + 2 * HOUR

    @WRITES
    def test_and_writes_of_an_earlier_claim_change_no_later_one(self, own: Api, host: Provider, write: Write) -> None:
        consumer, _ = write(own, host, lease=60)
        old = generation_of(own, consumer)
        own.delete(f"/allocations/{consumer}").expect(204)
        write(own, host, consumer, lease=60)[1].expect(200, 204)
        shown = end_of(own, consumer)
        known = {"consumer_generation": old}
        asked = [{"consumer_uuid": consumer, "lease": HOUR, **known}]
        assert own.put("/leases", {"leases": asked}).expect(200).json == {"gone": [consumer], "without_lease": []}
        own.put(f"/allocations/{consumer}", {**holding(), **known}).expect(409)
        put(own, host, consumer, generation=old)[1].expect(409)
        claim(own, host, consumer, generation=old)[1].expect(409)
        assert end_of(own, consumer) == shown
        asked[0]["consumer_generation"] = generation_of(own, consumer)
        assert own.put("/leases", {"leases": asked}).expect(200).gone == []

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ({}, "'leases' is a required property"),
            ({"leases": []}, "leases"),
            ({"leases": [{"consumer_uuid": "x", "lease": 1}]}, "leases[0].consumer_uuid"),
            ({"leases": [{"consumer_uuid": fresh_uuid(), "lease": 0}]}, "leases[0].lease"),
            ({"leases": [{"consumer_uuid": fresh_uuid(), "lease": None}]}, "leases[0].lease"),
            ({"leases": [{"consumer_uuid": fresh_uuid()}]}, "'lease' is a required property"),
        ],
    )
    def test_refuse_bad_bodies(self, own: Api, body: dict[str, Any], words: str) -> None:
        assert own.put("/leases", body).refused(400, words)

    def test_refuse_a_consumer_twice_and_renew_none(self, own: Api, host: Provider) -> None:
        consumer, _ = put(own, host, lease=60)
        shown = end_of(own, consumer)
        asked = [{"consumer_uuid": uuid, "lease": HOUR} for uuid in (consumer, consumer.upper())]
        assert own.put("/leases", {"leases": asked}).refused(400, "leases[1]")
        assert end_of(own, consumer) == shown

    def test_are_limited(self, own: Api) -> None:
        asked = [{"consumer_uuid": fresh_uuid(), "lease": HOUR} for _ in range(10_001)]
        assert own.put("/leases", {"leases": asked}).refused(413, "at most 10000")
        assert len(own.put("/leases", {"leases": asked[1:]}).expect(200).gone) == 10_000

    def test_need_the_version(self, own: Api) -> None:
        assert own.at(BEFORE).put("/leases", {"leases": []}).refused(404, "stead 1.2")


@pytest.mark.every_database
def test_a_lease_ends_by_itself(empty_api: Api) -> None:
    own = empty_api.at(OWN)
    host = own.create_provider(inventories={"VCPU": 2})
    released, _ = put(own, host, lease=1)
    marked, _ = put(own, host, lease=1, on_expiry="mark")
    since = own.get("/changes").token
    assert claim(own, host)[1].refused(409, "Nothing fits", code="stead.nothing_fits")
    wait_until(lambda: not own.get(f"/allocations/{released}").allocations)
    claim(own, host)[1].expect(200)
    assert own.get(f"/allocations/{marked}").allocations
    wait_until(lambda: marked in {each["uuid"] for each in own.get(f"/changes?since={since}&timeout=0").consumers})
    told = {each["uuid"]: each for each in own.get(f"/changes?since={since}&timeout=0").consumers}
    assert told.pop(released) == {"uuid": released, "generation": None, "expires_at": None, "lease_ended": True}
    assert told.pop(marked)["lease_ended"]
    assert [each["lease_ended"] for each in told.values()] == [False], "a new claim is no end"
    now = in_utc(int(time.time()))
    overdue = own.get(f"/consumers?expires_before={now}").consumers
    assert [each["uuid"] for each in overdue] == [marked]
