"""``stead explain`` draws what the service explains, and ``stead candidates`` points to it."""

import json

import pytest

from tests.system.api.client import NEWEST

QUERY = "resources_A=VCPU:8&required_A=!CUSTOM_OLD"


def step(parameter, value, remaining, removed, **check):
    return {"parameter": parameter, "value": value, **check, "left": remaining, "removed": removed}


def explanation(**more):
    amount = ("resources_A", "VCPU:8")
    return {
        "summary": "No provider with 8 VCPU free lacks the trait CUSTOM_OLD.",
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
No provider with 8 VCPU free lacks the trait CUSTOM_OLD.

providers for group _A
  all                     100  ████████████████████
  have VCPU                80  ████████████████░░░░  −20
  allow 8 VCPU at once     80  ████████████████░░░░
  have 8 VCPU free         12  ███░░░░░░░░░░░░░░░░░  −68
  required_A=!CUSTOM_OLD    0  ░░░░░░░░░░░░░░░░░░░░  −12
  near: 10 lack 2 VCPU, 4 lack 3 VCPU (host-1, host-2)
  near: 12 fail only: required_A=!CUSTOM_OLD (host-\\x1b[2J)

trees
  all                    4  ████████████████████
  provider for group _A  0  ░░░░░░░░░░░░░░░░░░░░  −4

Changes that would help
  with resources_A=VCPU:6 instead of VCPU:8  100+ candidates
  without required_A=!CUSTOM_OLD             1 candidate
  with can_split=VCPU                        3 candidates
"""


def test_a_funnel_is_drawn(server, stead):
    server.can(f"GET /allocation_candidates/explain?{QUERY}", explanation())
    ran = stead("explain", QUERY)
    assert (ran.code, ran.err) == (1, "")  # the answer is no
    assert "\n".join(line.rstrip() for line in ran.out.splitlines()) + "\n" == PICTURE
    assert server.asked[0].headers["openstack-api-version"] == f"placement {NEWEST}, stead 1.0"


INSTANCE = "0b9a4a6e-2a3f-4a52-9a3d-1f5a6f0f6a10"
OURS = "req-11111111-2222-4333-8444-555555555555"
NOVAS = "req-66666666-7777-4888-8999-aaaaaaaaaaaa"
OTHERS = "req-bbbbbbbb-7777-4888-8999-aaaaaaaaaaaa"


def log_of(form):
    """A query of another instance, that of this one, its claim, and another query."""
    requests = [
        (OTHERS, "GET", "/allocation_candidates?resources=VCPU:1", []),
        (NOVAS, "GET", f"/placement/allocation_candidates?{QUERY}", []),
        (NOVAS, "PUT", f"/allocations/{INSTANCE}", [INSTANCE]),
        (OTHERS, "GET", "/allocation_candidates?resources=VCPU:2", []),
    ]
    for given, method, target, claims in requests:
        if form == "json":
            record = {"method": method, "target": target, "request_id": OURS, "global_request_id": given}
            yield json.dumps({**record, "claims": claims})
        else:
            yield f'2026-11-26 INFO requestlog [{given} {OURS} u p] 127.0.0.1 "{method} {target}" status: 200 len: 9'


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("called", [INSTANCE, NOVAS])
def test_the_request_of_an_instance_is_found_in_the_log(server, stead, tmp_path, form, called):
    file = tmp_path / "stead.log"
    file.write_text("\n".join(log_of(form)))
    server.can(f"GET /allocation_candidates/explain?{QUERY}", explanation())
    ran = stead("explain", "--instance", called, "--log", str(file))
    assert (ran.code, ran.err) == (1, "")
    first, blank, then, *_ = ran.out.splitlines()
    assert (first, blank) == (f"{called} requested {QUERY}", "")
    assert then == PICTURE.splitlines()[0]


def test_an_instance_that_the_log_lacks_is_told_with_what_to_do(server, stead, tmp_path):
    file = tmp_path / "stead.log"
    file.write_text("\n".join(log_of("text")))
    ran = stead("explain", "--instance", INSTANCE[::-1], "--log", str(file))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith("; `openstack server event list` shows the request IDs of an instance\n")
    assert stead("explain", "--instance", INSTANCE, "--log", str(tmp_path / "none")).code == 2
    assert stead("explain", "--instance", INSTANCE).code == 2
    assert server.asked == []


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
    found = explanation(summary="There are 100+ candidates.", candidates=100, more=True, relaxations=[])
    server.can(f"GET /allocation_candidates/explain?{QUERY}", found)
    out = stead("explain", QUERY).out
    assert out.startswith("There are 100+ candidates.\n")
    assert "help" not in out


def test_the_classes_of_one_group_are_columns_of_one_table(server, stead):
    told = explanation(relaxations=[], summary="No provider has 9 MEMORY_MB free; the largest has 8.")
    told["groups"][0]["suffix"] = ""
    told["groups"][0]["choices"] = [
        {
            "resource_class": name,
            "in_play": 1200,
            "steps": [
                step("disabled", "false", 1199, 1),
                step("resources", f"{name}:9", 1000, 199, check="inventory"),
                step("resources", f"{name}:9", 1000, 0, check="units"),
                step("resources", f"{name}:9", left, 1000 - left, check="room"),
            ],
            "nearest": [
                {"parameter": "disabled", "value": "false", "providers": 1, "lacking": [], "examples": [{"name": "a"}]}
            ],
        }
        for name, left in (("VCPU", 7), ("MEMORY_MB", 0))
    ]
    server.can("GET /allocation_candidates/explain?resources=VCPU:9,MEMORY_MB:9", told)
    lines = stead("explain", "resources=VCPU:9,MEMORY_MB:9").out.splitlines()
    assert [line.rstrip() for line in lines[:9]] == [
        "No provider has 9 MEMORY_MB free; the largest has 8.",
        "",
        "providers for                VCPU  MEMORY_MB",
        "  all                       1,200      1,200",
        "  are enabled               1,199      1,199",
        "  have the class            1,000      1,000",
        "  allow the amount at once  1,000      1,000",
        "  have the amount free          7          0",
        "  near: 1 are disabled only (a)",
    ]


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
    assert (ran.code, ran.out, ran.err) == (
        2,
        "",
        "stead: No such resource class FOO. Names of your own begin with CUSTOM_, as CUSTOM_FOO (400)\n",
    )


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
