import pytest

from stead.cli.claims import Owner, claim_first
from stead.cli.errors import Negative
from stead.client.blocking.connecting import connect
from stead.client.calls import random_pause
from tests.system.api.client import NEWEST

CONSUMER = "2f0f2d34-6d6d-4f3c-9d6e-0a1b2c3d4e5f"
QUERY = "resources=VCPU:2"
ASK = f"GET /allocation_candidates?{QUERY}&limit=1"
HELD = f"GET /allocations/{CONSUMER}"
PUT = f"PUT /allocations/{CONSUMER}"
NOTHING = {"allocation_requests": [], "provider_summaries": {}}
FULL = "Unable to allocate inventory for consumer: The requested amount would exceed the capacity"

NOTHING_FITS = f"stead: nothing fits {QUERY}; `stead explain` with the same query says why\n"


def offer(host="host-1", used=0):
    request = {"allocations": {host: {"resources": {"VCPU": 2}}}, "mappings": {"": [host]}}
    summary = {"resources": {"VCPU": {"capacity": 8, "used": used}}, "root_provider_uuid": host}
    summary |= {"parent_provider_uuid": None, "traits": []}
    return {"allocation_requests": [request], "provider_summaries": {host: summary}}


def holding(host="host-1", amount=2, kind="VOLUME"):
    return {
        "allocations": {host: {"generation": 4, "resources": {"VCPU": amount}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": 3,
        "consumer_type": kind,
    }


def sent_by(server, method):
    return [asked.body for asked in server.asked if asked.method == method]


@pytest.fixture
def claim(server, stead):
    """``claim()``: the command, for CONSUMER and QUERY, against a server where it is new unless said otherwise."""

    def call(*arguments):
        server.can(HELD, {"allocations": {}})
        return stead("claim", QUERY, "--consumer", CONSUMER, "--project", "p", "--user", "u", *arguments)

    return call


def test_the_first_candidate_is_claimed_as_the_service_wrote_it(server, claim):
    server.can(ASK, offer())
    server.can(PUT, None, 204)
    ran = claim()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"claimed for consumer {CONSUMER}\n")
    (sent,) = sent_by(server, "PUT")
    assert sent == {
        "allocations": {"host-1": {"resources": {"VCPU": 2}}},
        "mappings": {"": ["host-1"]},
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "INSTANCE",
        "consumer_generation": None,
    }


def test_a_consumer_that_holds_something_is_replaced_at_its_generation_and_keeps_its_type(server, claim):
    server.can(HELD, holding())
    server.can(ASK, offer(used=2))
    server.can(PUT, None, 204)
    ran = claim("--replace", "--json")
    (sent,) = sent_by(server, "PUT")
    assert (sent["consumer_generation"], sent["consumer_type"]) == (3, "VOLUME")
    assert ran.json["replaced"] == holding()["allocations"]
    assert ran.json["providers"][0]["resources"]["VCPU"]["free_after"] == 6  # what it gives back is free again


@pytest.mark.parametrize(("kind", "arguments", "sent"), [("VOLUME", ("--type", "PORT"), "PORT"), ("unknown", (), None)])
def test_the_type_is_the_one_given_and_never_the_word_for_none(server, claim, kind, arguments, sent):
    server.can(HELD, holding(kind=kind))
    server.can(ASK, offer())
    server.can(PUT, None, 204)
    assert claim("--replace", *arguments).code == 0
    assert [body.get("consumer_type") for body in sent_by(server, "PUT")] == [sent]


def test_without_a_consumer_a_new_uuid_is_made_and_shown(server, stead):
    server.can(ASK, offer())
    ran = stead("claim", QUERY, "--project", "p", "--user", "u", "--json")
    assert ran.code == 1  # no answer was canned for a uuid that we could not know
    stead("claim", QUERY, "--project", "p", "--user", "u")
    first, second = [path for call in server.calls() if (path := call.removeprefix("GET /allocations/")) != call]
    assert len(first) == len(CONSUMER)
    assert first != second


@pytest.mark.parametrize(
    ("detail", "code"),
    [
        (FULL, "placement.undefined_code"),
        ("Inventory and/or allocations changed while attempting", "placement.concurrent_update"),
    ],
)
def test_a_place_taken_meanwhile_makes_it_ask_again(server, claim, detail, code):
    server.can(ASK, offer("host-1"))
    server.can(ASK, offer("host-2"))
    server.refuse(PUT, 409, detail, code)
    server.can(PUT, None, 204)
    ran = claim("--json")
    assert (ran.code, ran.json["tries"]) == (0, 2)
    assert list(ran.json["allocation_request"]["allocations"]) == ["host-2"]


def test_a_place_taken_meanwhile_may_have_been_the_last(server, claim):
    server.can(ASK, offer())
    server.can(ASK, NOTHING)
    server.refuse(PUT, 409, FULL)
    ran = claim()
    assert (ran.code, ran.out, ran.err) == (
        1,
        "",
        NOTHING_FITS,
    )


def test_losing_every_time_ends_with_the_last_reason(server):
    server.can(HELD, {"allocations": {}})
    server.can(ASK, offer())
    server.refuse(PUT, 409, FULL)
    with (
        connect(server.url, retry=False) as api,
        pytest.raises(Negative, match=f"other clients claimed the place first, 3 times; the last refusal: {FULL}"),
    ):
        claim_first(api, QUERY, Owner(CONSUMER, "p", "u", None), tries=3)
    assert len(server.calls("PUT")) == 3


def test_somebody_elses_change_of_the_same_consumer_is_not_overwritten(server, claim):
    server.can(ASK, offer())
    server.refuse(PUT, 409, "consumer generation conflict - expected 1 but got None", "placement.concurrent_update")
    ran = claim()
    assert ran.code == 1
    assert ran.err == "stead: consumer generation conflict - expected 1 but got None (409)\n"
    assert len(server.calls("PUT")) == 1


@pytest.mark.parametrize("status", [400, 403])
def test_a_refusal_is_not_tried_again(server, claim, status):
    server.can(ASK, offer())
    server.refuse(PUT, status, "no")
    ran = claim()
    assert (ran.code, ran.err) == (2, f"stead: no ({status})\n")
    assert len(server.calls("PUT")) == 1


def test_a_connection_lost_while_claiming_says_that_the_outcome_is_unknown(server, claim):
    server.can(ASK, offer())
    server.can(PUT, status=0)
    ran = claim()
    assert ran.code == 2
    assert ran.err.endswith(f"whether consumer {CONSUMER} holds its claim is unknown\n")


def test_nothing_is_written_where_nothing_fits(server, claim):
    server.can(ASK, NOTHING)
    ran = claim()
    assert (ran.code, ran.err) == (1, NOTHING_FITS)
    assert server.calls("PUT") == []


def test_a_consumer_that_is_no_uuid_is_wrong_usage(server, stead):
    ran = stead("claim", QUERY, "--consumer", "me", "--project", "p", "--user", "u")
    assert ran.code == 2
    assert "claim --help" in ran.err
    assert server.asked == []


def test_pauses_grow_and_stay_short():
    assert max(random_pause(1, 0.02, 1.0) for _ in range(1000)) <= 0.04
    assert 0.04 < max(random_pause(9, 0.02, 1.0) for _ in range(1000)) <= 1
    assert random_pause(100_000, 0.02, 1.0) <= 1  # an outage of days


# A server with Stead's features: one request finds the place and claims it.

POST = "POST /claims"


def with_own_features(server, versions=("1.0", "1.0")):
    oldest, newest = versions
    server.can("GET /", {"versions": [{"id": "v1.0", "stead": {"min_version": oldest, "max_version": newest}}]})


def granted(tries=1):
    claim = {"consumer_uuid": CONSUMER, "consumer_generation": 1}
    return {"claims": [{**claim, **offer()["allocation_requests"][0]}], "tries": tries}


TREE = "GET /provider_trees?in_tree=host-1"


def can_be_looked_at(server, used=2):
    host = {"uuid": "host-1", "name": "compute1", "generation": 4, "parent_provider_uuid": None}
    parts = {"inventories": {"VCPU": {"total": 10, "reserved": 2}}, "usages": {"VCPU": used}}
    parts |= {"traits": [], "aggregates": [], "disabled": None}
    tree = {"root_provider_uuid": "host-1", "provider_count": 1, "providers": [{**host, **parts}]}
    server.can(TREE, {"provider_trees": [tree], "links": []})


def test_a_server_with_claims_finds_the_place_itself(server, claim):
    with_own_features(server)
    server.can(POST, granted(tries=3))
    can_be_looked_at(server, used=5)
    ran = claim("--json")
    assert (ran.code, ran.err) == (0, "")
    (sent,) = sent_by(server, "POST")
    owner = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}
    assert sent == {"claims": [{"consumer_uuid": CONSUMER, "query": QUERY, **owner}], "explain": False}
    (asked,) = [asked for asked in server.asked if asked.method == "POST"]
    assert asked.headers["openstack-api-version"] == f"placement {NEWEST}, stead 1.0"
    assert (ran.json["tries"], ran.json["replaced"]) == (3, {})
    assert ran.json["allocation_request"] == offer()["allocation_requests"][0]
    (provider,) = ran.json["providers"]
    assert (provider["name"], provider["root_name"]) == ("compute1", "compute1")
    assert provider["resources"] == {"VCPU": {"amount": 2, "capacity": 8, "used_before": 3, "free_after": 3}}
    assert not [call for call in server.calls() if "allocation_candidates" in call or call.startswith("PUT")]


def test_a_consumer_that_holds_something_claims_at_its_generation(server, claim):
    with_own_features(server)
    server.can(HELD, holding())
    server.can(POST, granted())
    can_be_looked_at(server)
    ran = claim("--replace", "--json")
    (sent,) = sent_by(server, "POST")
    assert (sent["claims"][0]["consumer_generation"], sent["claims"][0]["consumer_type"]) == (3, "VOLUME")
    assert ran.json["replaced"] == holding()["allocations"]


@pytest.mark.parametrize("status", [403, 404, 503, 0])
def test_a_claim_that_was_written_is_reported_whatever_else_may_be_read(server, claim, status):
    with_own_features(server)
    server.can(POST, granted())
    server.can(TREE, {"errors": [{"detail": "no"}]}, status)
    ran = claim()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"claimed for consumer {CONSUMER}\n")
    last = ran.out.splitlines()[-1].split()
    assert last == ["host-1", "2", "VCPU", "–"]
    (provider,) = claim("--json").json["providers"]
    assert provider["resources"]["VCPU"]["capacity"] is None


def test_nothing_fits_is_the_answer_of_the_one_request(server, claim):
    with_own_features(server)
    server.refuse(POST, 409, f"Nothing fits claims[0] (consumer {CONSUMER}).", "stead.nothing_fits")
    ran = claim()
    assert (ran.code, ran.out, ran.err) == (
        1,
        "",
        NOTHING_FITS,
    )
    unsure = f"Nothing was found for claims[0] (consumer {CONSUMER}) within the work that one request may do."
    server.answers.pop(POST)
    server.refuse(POST, 409, unsure, "stead.nothing_found")
    assert claim().err == f"stead: {unsure}\n"


@pytest.mark.parametrize(
    ("status", "detail", "code"), [(409, "consumer generation conflict", 1), (403, "no", 2), (400, "no", 2)]
)
def test_a_refusal_of_the_one_request_is_final(server, claim, status, detail, code):
    with_own_features(server)
    server.refuse(POST, status, detail)
    ran = claim()
    assert (ran.code, ran.err) == (code, f"stead: {detail} ({status})\n")
    assert server.calls("PUT") == []


def test_a_connection_lost_in_the_one_request_says_that_the_outcome_is_unknown(server, claim):
    with_own_features(server)
    server.can(POST, status=0)
    ran = claim()
    assert ran.code == 2
    assert ran.err.endswith(f"whether consumer {CONSUMER} holds its claim is unknown\n")


@pytest.mark.parametrize("status", [404, 405])
def test_of_servers_of_two_kinds_behind_one_address_either_claims(server, claim, status):
    with_own_features(server)
    server.refuse(POST, status, "no such path")
    server.can(ASK, offer())
    server.can(PUT, None, 204)
    assert claim().code == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"versions": [{"id": "v1.0", "max_version": NEWEST}]}, 200),  # another Placement service
        ({"versions": [{"stead": {"min_version": "1.1", "max_version": "1.4"}}]}, 200),  # a Stead without this version
        ({"versions": [{"stead": {"min_version": "0.9", "max_version": "0.12"}}]}, 200),
        ({"versions": [{"stead": {"min_version": "x", "max_version": None}}]}, 200),
        ({"versions": []}, 200),
        ([], 200),
        (b"<html>welcome</html>", 200),
        (None, 301),  # a proxy that knows only what is below its root
        (None, 401),
        (None, 404),
        (None, 406),
    ],
)
def test_a_server_that_does_not_say_it_has_claims_is_asked_and_written_to(server, claim, body, status):
    server.can("GET /", body, status)
    server.can(ASK, offer())
    server.can(PUT, None, 204)
    assert claim().code == 0
    assert server.calls("POST") == []


@pytest.mark.parametrize("versions", [("1.0", "1.0"), ("1.0", "1.12"), ("0.9", "2.0")])
def test_a_newer_stead_that_still_has_this_version_claims_by_itself(server, claim, versions):
    with_own_features(server, versions)
    server.can(POST, granted())
    can_be_looked_at(server)
    assert claim().code == 0
    assert server.calls("PUT") == []
