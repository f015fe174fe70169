CONSUMER = "2f0f2d34-6d6d-4f3c-9d6e-0a1b2c3d4e5f"
HELD = {
    "host-1": {"generation": 1, "resources": {"VCPU": 2, "MEMORY_MB": 512}},
    "host-2": {"generation": 1, "resources": {"VCPU": 1}},
}


def test_a_release_says_what_was_given_back(server, stead):
    server.can(f"GET /allocations/{CONSUMER}", {"allocations": HELD})
    server.can(f"DELETE /allocations/{CONSUMER}", None, 204)
    ran = stead("release", CONSUMER)
    assert (ran.code, ran.out, ran.err) == (0, f"released {CONSUMER}: 512 MEMORY_MB, 3 VCPU\n", "")


def test_a_release_in_json_has_the_allocations(server, stead):
    server.can(f"GET /allocations/{CONSUMER}", {"allocations": HELD})
    server.can(f"DELETE /allocations/{CONSUMER}", None, 204)
    assert stead("release", CONSUMER, "--json").json == {"consumer": CONSUMER, "released": HELD}


def test_a_consumer_that_holds_nothing_is_a_no(server, stead):
    server.can("GET /allocations/x/../y z", {"allocations": {}})
    server.refuse("DELETE /allocations/x/../y z", 404, "No allocations for consumer 'x/../y z'")
    ran = stead("release", "x/../y z")
    assert (ran.code, ran.out, ran.err) == (1, "", "stead: No allocations for consumer 'x/../y z' (404)\n")
