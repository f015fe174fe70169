import json

TOKEN, NEXT = "AQtoken", "AQnext"
PROVIDER, CONSUMER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def told(token=TOKEN, providers=(), consumers=()):
    return {
        "token": token,
        "providers": [{"uuid": uuid, "generation": generation} for uuid, generation in providers],
        "consumers": [{"uuid": uuid, "generation": generation} for uuid, generation in consumers],
    }


def test_without_a_token_it_begins_with_one(server, stead):
    server.can("GET /changes?timeout=30", told())
    ran = stead("watch", "--once")
    assert (ran.code, ran.out, ran.err) == (0, f"token {TOKEN}\n", "")
    assert server.asked[0].headers["openstack-api-version"] == "placement 1.39, stead 1.0"


def test_what_changed_is_a_line_each(server, stead):
    server.can(f"GET /changes?since={TOKEN}&timeout=5", told(NEXT, [(PROVIDER, 7)], [(CONSUMER, None)]))
    ran = stead("watch", "--since", TOKEN, "--once", "--wait", "5")
    assert ran.out.splitlines() == [
        f"provider {PROVIDER} is at generation 7",
        f"consumer {CONSUMER} is gone",
        f"token {NEXT}",
    ]


def test_it_goes_on_with_the_new_token_until_it_can_not(server, stead):
    server.can("GET /changes?timeout=30", told())
    server.can(f"GET /changes?since={TOKEN}&timeout=30", told(TOKEN))
    server.can(f"GET /changes?since={TOKEN}&timeout=30", told(NEXT, [(PROVIDER, 1)]))
    server.refuse(f"GET /changes?since={NEXT}&timeout=30", 410, "Request a new token", "stead.start_over")
    ran = stead("--json", "watch")
    assert ran.code == 1
    assert [json.loads(line)["token"] for line in ran.out.splitlines()] == [TOKEN, NEXT]
    assert ran.err == "stead: Request a new token (without --since it begins now)\n"


def test_a_server_without_such_a_path_is_told_of(server, stead):
    server.refuse("GET /changes?timeout=30", 404, "No such path: /changes")
    ran = stead("watch")
    assert (ran.code, ran.out) == (1, "")
    assert "No such path: /changes" in ran.err


def test_in_json_an_answer_is_one_line_that_line_tools_can_take_apart(server, stead):
    server.can("GET /changes?timeout=30", told())
    assert stead("--json", "watch", "--once").out == f'{{"token":"{TOKEN}","providers":[],"consumers":[]}}\n'
