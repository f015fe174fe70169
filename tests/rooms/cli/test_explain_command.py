"""``stead explain`` draws what the service explains, and ``stead candidates`` points to it."""

from tests.system.api.client import NEWEST

QUERY = "resources_A=VCPU:8&required_A=!CUSTOM_OLD"


def step(parameter, value, remaining, removed, **check):
    return {"parameter": parameter, "value": value, **check, "left": remaining, "removed": removed}


def explanation(**more):
    amount = ("resources_A", "VCPU:8")
    return {
        "candidates": 0,
        "more": False,
        "complete": True,
        "roots": {"in_play": 4, "steps": []},
        "groups": [
            {
                "suffix": "_A",
                "choices": [
                    {
                        "resource_class": None,
                        "in_play": 100,
                        "steps": [
                            step(*amount, 80, 20, check="inventory"),
                            step(*amount, 80, 0, check="units"),
                            step(*amount, 12, 68, check="room"),
                            step("required_A", "!CUSTOM_OLD", 0, 12),
                        ],
                        "nearest": [
                            {
                                "parameter": "resources_A",
                                "value": "VCPU:8",
                                "check": "room",
                                "providers": 14,
                                "lacking": [{"amount": 2, "providers": 10}, {"amount": 3, "providers": 4}],
                                "examples": [{"uuid": "u", "name": "host-1"}, {"uuid": "v", "name": "host-2"}],
                            },
                            {
                                "parameter": "required_A",
                                "value": "!CUSTOM_OLD",
                                "providers": 12,
                                "lacking": [],
                                "examples": [{"uuid": "w", "name": "host-\x1b[2J"}],
                            },
                        ],
                    }
                ],
            }
        ],
        "trees": {
            "in_play": 4,
            "undecided": 0,
            "steps": [{"suffix": "_A", "resource_class": None, "left": 0, "removed": 4}],
        },
        "relaxations": [
            {
                "without": {"parameter": "resources_A", "value": "VCPU:8"},
                "with": {"parameter": "resources_A", "value": "VCPU:6"},
                "candidates": 100,
                "more": True,
            },
            {
                "without": {"parameter": "required_A", "value": "!CUSTOM_OLD"},
                "with": None,
                "candidates": 1,
                "more": False,
            },
            {"without": None, "with": {"parameter": "can_split", "value": "VCPU"}, "candidates": 3, "more": False},
        ],
        **more,
    }


PICTURE = """\
Nothing fits.

group _A
  in play                            100  ████████████████████
  resources_A=VCPU:8: have any        80  ████████████████░░░░  −20
  resources_A=VCPU:8: in such units   80  ████████████████░░░░
  resources_A=VCPU:8: have room       12  ███░░░░░░░░░░░░░░░░░  −68
  required_A=!CUSTOM_OLD               0  ░░░░░░░░░░░░░░░░░░░░  −12
  near: 10 lack 2 VCPU, 4 lack 3 VCPU (host-1, host-2)
  near: 12 fail only required_A=!CUSTOM_OLD (host-\\x1b[2J)

trees
  in play                4  ████████████████████
  provider for group _A  0  ░░░░░░░░░░░░░░░░░░░░  −4

Changes that would help
  with resources_A=VCPU:6 instead of VCPU:8  100+ candidates
  without required_A=!CUSTOM_OLD             1 candidate
  with can_split=VCPU                        3 candidates
"""


def test_a_funnel_is_drawn(server, stead):
    server.can(f"GET /allocation_candidates/explain?{QUERY}", explanation())
    ran = stead("explain", QUERY)
    assert (ran.code, ran.err) == (0, "")
    assert "\n".join(line.rstrip() for line in ran.out.splitlines()) + "\n" == PICTURE
    assert server.asked[0].headers["openstack-api-version"] == f"placement {NEWEST}, stead 1.0"


def test_in_json_it_is_what_the_service_says(server, stead):
    server.can(f"GET /allocation_candidates/explain?{QUERY}", explanation())
    assert stead("explain", QUERY, "--json").json == explanation()


def test_what_is_not_complete_and_what_nothing_helps_is_said(server, stead):
    told = explanation(complete=False, relaxations=[])
    told["trees"]["undecided"] = 3
    server.can(f"GET /allocation_candidates/explain?{QUERY}", told)
    out = stead("explain", QUERY).out
    assert "reached its work limit before everything was checked" in out
    assert "3 not decided" in out
    assert "No single change of the request would help." in out


def test_what_fits_is_counted(server, stead):
    server.can(f"GET /allocation_candidates/explain?{QUERY}", explanation(candidates=100, more=True, relaxations=[]))
    out = stead("explain", QUERY).out
    assert out.startswith("100+ candidates\n")
    assert "help" not in out


def test_a_server_without_explanations_is_told_apart_from_a_request_that_fits_nowhere(server, stead):
    server.refuse(f"GET /allocation_candidates/explain?{QUERY}", 404, "The resource could not be found.")
    ran = stead("explain", QUERY)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "stead: the server has no GET /allocation_candidates/explain; this command requires Stead with `stead 1.0`\n"
    )


def test_a_bad_query_is_refused_with_the_services_reason(server, stead):
    server.refuse("GET /allocation_candidates/explain?resources=FOO:1", 400, "No such resource class FOO.")
    ran = stead("explain", "resources=FOO:1")
    assert (ran.code, ran.out, ran.err) == (2, "", "stead: No such resource class FOO. (400)\n")


def test_candidates_ask_for_steads_own_features_too(server, stead):
    server.can(
        "GET /allocation_candidates?resources=A:1&limit=20", {"allocation_requests": [], "provider_summaries": {}}
    )
    stead("candidates", "resources=A:1")
    assert server.asked[0].headers["openstack-api-version"] == f"placement {NEWEST}, stead 1.0"


def test_a_flavor_needs_the_version_that_has_flavors(server, stead):
    server.can("GET /allocation_candidates/explain?flavor=m1.gpu", explanation())
    assert stead("explain", "flavor=m1.gpu").err == ""
    assert server.asked[-1].headers["openstack-api-version"] == f"placement {NEWEST}, stead 1.1"
