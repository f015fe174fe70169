import pytest

from stead.client.consumers import uuid_of

CONSUMER = "2f0f2d34-6d6d-4f3c-9d6e-0a1b2c3d4e5f"
HELD = {
    "host-1": {"generation": 1, "resources": {"VCPU": 2, "MEMORY_MB": 512}},
    "host-2": {"generation": 1, "resources": {"VCPU": 1}},
}


OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "JOB", "consumer_generation": 3}


def test_a_release_says_what_was_given_back(server, stead):
    server.can(f"GET /allocations/{CONSUMER}", {"allocations": HELD, **OWNER})
    server.can(f"DELETE /allocations/{CONSUMER}", None, 204)
    ran = stead("release", CONSUMER)
    assert (ran.code, ran.out, ran.err) == (0, f"released {CONSUMER}: 3 VCPU, 512 MiB MEMORY_MB\n", "")


def test_a_release_in_json_has_the_allocations(server, stead):
    server.can(f"GET /allocations/{CONSUMER}", {"allocations": HELD, **OWNER})
    server.can(f"DELETE /allocations/{CONSUMER}", None, 204)
    assert stead("release", CONSUMER, "--json").json == {"consumer": CONSUMER, "released": HELD}


def test_a_consumer_that_holds_nothing_is_a_no(server, stead):
    uuid = uuid_of("x/../y z")
    server.can(f"GET /allocations/{uuid}", {"allocations": {}})
    for arguments in ([], ["--dry-run"], ["--json"]):
        ran = stead("release", "x/../y z", *arguments)
        assert (ran.code, ran.out, ran.err) == (1, "", f"stead: no allocations of 'x/../y z' (consumer {uuid})\n")


@pytest.mark.parametrize("arguments", [(), (CONSUMER, "--project", "p"), (CONSUMER, "--all-of", "host")])
def test_a_consumer_or_options_are_given_and_not_both(server, stead, arguments):
    assert stead("release", *arguments).code == 2
    assert server.asked == []


def test_consumers_without_a_type_are_released_with_one_that_the_api_accepts(server, stead):
    record = {
        "uuid": CONSUMER,
        "allocations": HELD,
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "unknown",
        "consumer_generation": 3,
    }
    server.can("GET /consumers?project_id=p&limit=1000", {"consumers": [record], "links": []})
    server.can(f"PUT /allocations/{CONSUMER}", None, 204)
    assert stead("release", "--project", "p", "--yes").code == 0
    assert [asked.body["consumer_type"] for asked in server.asked if asked.method == "PUT"] == ["INSTANCE"]


def test_a_consumer_that_changed_after_it_was_listed_keeps_its_allocations(server, stead):
    record = {
        "uuid": CONSUMER,
        "allocations": HELD,
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "JOB",
        "consumer_generation": 3,
    }
    server.can("GET /consumers?project_id=p&limit=1000", {"consumers": [record], "links": []})
    server.can(f"GET /allocations/{CONSUMER}", {"allocations": HELD, **OWNER})
    server.refuse(f"PUT /allocations/{CONSUMER}", 409, "consumer generation conflict", "placement.concurrent_update")
    ran = stead("release", "--project", "p", "--yes", "--json")
    assert ran.code == 1
    assert ran.json["released"] == []
    assert ran.json["failed"] == [{"uuid": CONSUMER, "reason": "consumer generation conflict (409)"}]
    assert [asked.body["consumer_generation"] for asked in server.asked if asked.method == "PUT"] == [3]
