import pytest

from stead.cli.claim import Owner, claim_first, pause
from stead.cli.client import Api
from stead.cli.errors import Negative

CONSUMER = "2f0f2d34-6d6d-4f3c-9d6e-0a1b2c3d4e5f"
QUERY = "resources=VCPU:2"
ASK = f"GET /allocation_candidates?{QUERY}&limit=1"
HELD = f"GET /allocations/{CONSUMER}"
PUT = f"PUT /allocations/{CONSUMER}"
NOTHING = {"allocation_requests": [], "provider_summaries": {}}
FULL = "Unable to allocate inventory for consumer: The requested amount would exceed the capacity"


def offer(host="host-1", used=0):
    request = {"allocations": {host: {"resources": {"VCPU": 2}}}, "mappings": {"": [host]}}
    summary = {"resources": {"VCPU": {"capacity": 8, "used": used}}, "root_provider_uuid": host, "traits": []}
    return {"allocation_requests": [request], "provider_summaries": {host: summary}}


def holding(host="host-1", amount=2, kind="VOLUME"):
    return {
        "allocations": {host: {"generation": 4, "resources": {"VCPU": amount}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": 3,
        "consumer_type": kind,
    }


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
    (sent,) = [asked.body for asked in server.asked if asked.method == "PUT"]
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
    ran = claim("--json")
    sent = server.asked[2].body
    assert (sent["consumer_generation"], sent["consumer_type"]) == (3, "VOLUME")
    assert ran.json["replaced"] == holding()["allocations"]
    assert ran.json["providers"][0]["resources"]["VCPU"]["free_after"] == 6  # what it gives back is free again


@pytest.mark.parametrize(
    ("kind", "arguments", "sent"), [("VOLUME", ("--type", "PORT"), "PORT"), ("unknown", (), "INSTANCE")]
)
def test_the_type_is_the_one_given_and_never_the_word_for_none(server, claim, kind, arguments, sent):
    server.can(HELD, holding(kind=kind))
    server.can(ASK, offer())
    server.can(PUT, None, 204)
    assert claim(*arguments).code == 0
    assert server.asked[2].body["consumer_type"] == sent


def test_without_a_consumer_a_new_uuid_is_made_and_shown(server, stead):
    server.can(ASK, offer())
    ran = stead("claim", QUERY, "--project", "p", "--user", "u", "--json")
    assert ran.code == 1  # no answer was canned for a uuid that we could not know
    first = server.asked[0].path.removeprefix("/allocations/")
    stead("claim", QUERY, "--project", "p", "--user", "u")
    assert len(first) == len(CONSUMER)
    assert first != server.asked[1].path.removeprefix("/allocations/")


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
    assert (ran.code, ran.out, ran.err) == (1, "", f"stead: nothing fits {QUERY}\n")


def test_losing_every_time_ends_with_the_last_reason(server):
    server.can(HELD, {"allocations": {}})
    server.can(ASK, offer())
    server.refuse(PUT, 409, FULL)
    with Api(server.url) as api, pytest.raises(Negative, match=f"others were faster 3 times; the last refusal: {FULL}"):
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
    assert (ran.code, ran.err) == (1, f"stead: nothing fits {QUERY}\n")
    assert server.calls("PUT") == []


def test_a_consumer_that_is_no_uuid_is_wrong_usage(server, stead):
    ran = stead("claim", QUERY, "--consumer", "me", "--project", "p", "--user", "u")
    assert ran.code == 2
    assert "claim --help" in ran.err
    assert server.asked == []


def test_pauses_grow_and_stay_short():
    assert max(pause(1) for _ in range(1000)) <= 0.04
    assert 0.04 < max(pause(9) for _ in range(1000)) <= 1
