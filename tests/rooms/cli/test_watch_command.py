import json
import re

import pytest

from tests.system.api.client import NEWEST

TOKEN, NEXT = "AQtoken", "AQnext"
PROVIDER, CONSUMER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
GONE = "33333333-3333-4333-8333-333333333333"


def told(token=TOKEN, providers=(), consumers=()):
    return {
        "token": token,
        "providers": [{"uuid": uuid, "generation": generation} for uuid, generation in providers],
        "consumers": [{"uuid": uuid, "generation": generation} for uuid, generation in consumers],
    }


def test_without_a_token_it_begins_with_one_that_only_json_shows(server, stead):
    server.can("GET /changes", told())
    ran = stead("watch", "--once")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert server.asked[0].headers["openstack-api-version"] == f"placement {NEWEST}, stead 1.2"
    assert stead("watch", "--once", "--json").json["token"] == TOKEN


def can_tell_changes(server):
    server.can(
        f"GET /changes?since={TOKEN}&timeout=5",
        told(NEXT, [(PROVIDER, 7), (GONE, None)], [(CONSUMER, 1), (GONE, None)]),
    )
    host = {"uuid": PROVIDER, "name": "host-1", "generation": 7, "parent_provider_uuid": None}
    parts = {"inventories": {"VCPU": {"total": 16}}, "usages": {"VCPU": 4}, "traits": [], "aggregates": []}
    tree = {"root_provider_uuid": PROVIDER, "provider_count": 1, "providers": [{**host, **parts}]}
    server.can(f"GET /provider_trees?in_tree={PROVIDER}", {"provider_trees": [tree], "links": []})
    server.can(
        f"GET /allocations/{CONSUMER}",
        {
            "allocations": {PROVIDER: {"resources": {"VCPU": 4}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_type": "JOB",
            "consumer_generation": 1,
        },
    )


def test_what_changed_is_a_line_each_with_its_name_amounts_and_time(server, stead):
    can_tell_changes(server)
    ran = stead("watch", "--since", TOKEN, "--once", "--wait", "5")
    assert (ran.code, ran.err) == (0, "")
    times, lines = zip(*(line.split(" ", 1) for line in ran.out.splitlines()), strict=True)
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", time) for time in times)
    assert list(lines) == [
        "provider host-1: 4 / 16 VCPU",
        f"provider {GONE} deleted",
        f"consumer {CONSUMER} (JOB of project p): 4 VCPU from host-1",
        f"consumer {GONE} released",
    ]


def test_ends_of_claims_are_told(server, stead):
    """Of a claim, when it ends; of a released one, that its end was the reason; of an overdue one, since when."""
    ends = {CONSUMER: "2190-01-01T00:00:00Z", PROVIDER: "2001-01-01T00:00:00Z"}
    changed = [
        {"uuid": uuid, "generation": generation, "expires_at": ends.get(uuid), "lease_ended": uuid != CONSUMER}
        for uuid, generation in [(CONSUMER, 1), (PROVIDER, 1), (GONE, None)]
    ]
    server.can(f"GET /changes?since={TOKEN}&timeout=5", {"token": NEXT, "providers": [], "consumers": changed})
    for uuid, end in ends.items():
        owner = {"project_id": "p", "user_id": "u", "consumer_type": "JOB", "consumer_generation": 1}
        allocated = {"allocations": {GONE: {"resources": {"VCPU": 4}}}, "expires_at": end, "on_expiry": "mark"}
        server.can(f"GET /allocations/{uuid}", {**owner, **allocated})
    server.can(f"GET /provider_trees?in_tree={GONE}", {"provider_trees": [], "links": []})
    ran = stead("watch", "--since", TOKEN, "--once", "--wait", "5")
    assert ran.code == 0, ran.err
    assert [re.sub(r"(until|since) [0-9-]+ [0-9:]+", r"\1 …", line[9:]) for line in ran.out.splitlines()] == [
        f"consumer {CONSUMER} (JOB of project p): 4 VCPU from {GONE} until …",
        f"consumer {PROVIDER} (JOB of project p): 4 VCPU from {GONE}, overdue since …",
        f"consumer {GONE} released, since its lease ended",
    ]


def test_on_a_narrow_terminal_lines_continue_below_their_text(server, stead, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    can_tell_changes(server)
    ran = stead("watch", "--since", TOKEN, "--once", "--wait", "5")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    (continued,) = (line for line in lines if line.startswith(" " * 9))
    whole = f"{lines[lines.index(continued) - 1]} {continued.strip()}"
    assert whole[9:] == f"consumer {CONSUMER} (JOB of project p): 4 VCPU from host-1"


@pytest.mark.parametrize("status", [0, 502, 503, 504])
def test_it_survives_a_server_that_is_away_for_some_time(server, stead, status):
    server.can("GET /changes", told())
    call = f"GET /changes?since={TOKEN}&timeout=30"
    for _ in range(2):
        server.can(call, {"errors": [{"detail": "away"}]}, status)
    server.can(call, told(NEXT, [], [(CONSUMER, None)]))
    server.refuse(f"GET /changes?since={NEXT}&timeout=30", 410, "Request a new token", "stead.start_over")
    ran = stead("watch")
    assert (ran.code, ran.out[9:]) == (1, f"consumer {CONSUMER} released\n")
    assert ran.err.count("trying again") == 1


def test_it_goes_on_with_the_new_token_until_it_can_not(server, stead):
    server.can("GET /changes", told())
    server.can(f"GET /changes?since={TOKEN}&timeout=30", told(TOKEN))
    server.can(f"GET /changes?since={TOKEN}&timeout=30", told(NEXT, [(PROVIDER, 1)]))
    server.refuse(f"GET /changes?since={NEXT}&timeout=30", 410, "Request a new token", "stead.start_over")
    ran = stead("--json", "watch")
    assert ran.code == 1
    assert [json.loads(line)["token"] for line in ran.out.splitlines()] == [TOKEN, NEXT]
    assert ran.err == "stead: Request a new token (without --since it begins now)\n"


def test_a_server_without_such_a_path_is_told_of(server, stead):
    server.refuse("GET /changes", 404, "No such path: /changes")
    ran = stead("watch")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "stead: the server has no GET /changes; this command requires Stead with `stead 1.0`\n"


def test_in_json_an_answer_is_one_line_that_line_tools_can_take_apart(server, stead):
    server.can("GET /changes", told())
    assert stead("--json", "watch", "--once").out == f'{{"token":"{TOKEN}","providers":[],"consumers":[]}}\n'
