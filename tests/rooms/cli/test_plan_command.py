"""``stead plan drain``: on a real server, and stopped by a server with canned answers."""

import json
from urllib.request import Request, urlopen

import pytest

from stead.cli.app import run
from stead.client.consumers import uuid_of
from tests.servers.placements import stead_itself

pytestmark = pytest.mark.one_database

SITE = """
providers:
- name: host-1
  inventories: {VCPU: 8}
  children: [{name: gpu-1, inventories: {VGPU: 2}}]
- {name: host-2, inventories: {VCPU: 8}}
- {name: host-3, inventories: {VCPU: 8}}
"""


@pytest.fixture
def real(tmp_path, capsys, monkeypatch):
    """``real("plan", …)`` on a server with three hosts, of which the first has the consumers ``vm-2`` to ``vm-4``."""
    monkeypatch.setenv("COLUMNS", "80")
    with stead_itself(tmp_path) as (url, token):

        def call(*arguments):
            capsys.readouterr()
            code = run(["--url", url, "--token", token, *arguments])
            return code, *capsys.readouterr()

        (tmp_path / "site.yaml").write_text(SITE)
        assert call("topology", "apply", str(tmp_path / "site.yaml"))[0] == 0
        for amount in (2, 3, 4):
            claim(call, f"vm-{amount}", f"resources=VCPU:{amount - 1}&in_tree=name:host-1")
        call.put = lambda path, body: put(f"{url}{path}", token, body)
        yield call


def put(url, token, body):
    """As nova does, at a microversion without types of consumers."""
    headers = {
        "X-Auth-Token": token,
        "Content-Type": "application/json",
        "OpenStack-API-Version": "placement 1.36",
    }
    with urlopen(Request(url, json.dumps(body).encode(), headers, method="PUT")) as response:
        assert response.status == 204


def claim(call, name, query, *options):
    assert call("claim", query, "--project", "p", "--user", "u", "--consumer-name", name, *options)[0] == 0


def hosts_of(call, name):
    return {each["root_name"] for each in json.loads(call("consumer", "show", name, "--json")[1])["allocations"]}


PLAN = f"""\
move  consumer                              from → to
   1  {uuid_of("vm-4")}  host-1 → HOST: 3 VCPU
   2  {uuid_of("vm-3")}  host-1 → HOST: 2 VCPU
   3  {uuid_of("vm-2")}  host-1 → HOST: 1 VCPU
"""


def same_host(text):
    return text.replace("→ host-2", "→ HOST").replace("→ host-3", "→ HOST")


def test_a_plan_is_a_table_and_changes_nothing(real):
    code, out, err = real("plan", "drain", "host-1")
    assert (code, same_host(out), err) == (0, PLAN, "")
    assert real("plan", "drain", "gpu-1")[1] == out  # the whole tree
    assert hosts_of(real, "vm-2") == {"host-1"}
    assert "disabled" not in real("tree")[1]
    assert real("plan", "drain", "host-2") == (0, "no consumers\n", "")


def test_an_executed_plan_leaves_the_hosts_empty_and_disabled(real):
    code, out, err = real("plan", "drain", "host-1", "--execute", "--reason", "new memory")
    assert (code, err) == (0, "")
    assert same_host(out) == f"{PLAN}disabled host-1\nmade 3 of 3 moves\n"
    assert json.loads(real("who", "host-1", "--json")[1])["consumers"] == []
    assert hosts_of(real, "vm-2") <= {"host-2", "host-3"}
    assert "new memory" in real("provider", "show", "host-1")[1]
    told = json.loads(real("plan", "drain", "host-1", "--execute", "--json")[1])
    assert (told["moves"], told["made"], told["stopped"], told["disabled"]) == ([], 0, None, [])


def test_moved_consumers_keep_their_type_or_have_none_as_before(real):
    host = json.loads(real("provider", "show", "host-1", "--json")[1])["uuid"]
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": None}
    body = {"allocations": {host: {"resources": {"VCPU": 1}}}, **owner}
    real.put(f"/allocations/{uuid_of('server')}", body)
    claim(real, "volume", "resources=VCPU:1&in_tree=name:host-1", "--type", "VOLUME")
    assert types(real) == {"server": "unknown", "volume": "VOLUME"}
    assert real("plan", "drain", "host-1", "--execute")[0] == 0
    assert hosts_of(real, "server") <= {"host-2", "host-3"}
    assert types(real) == {"server": "unknown", "volume": "VOLUME"}
    claim(real, "server", "resources=VCPU:2", "--replace")
    claim(real, "volume", "resources=VCPU:2", "--replace")
    assert types(real) == {"server": "unknown", "volume": "VOLUME"}
    claim(real, "server", "resources=VCPU:1", "--replace", "--type", "SERVER")
    assert types(real) == {"server": "SERVER", "volume": "VOLUME"}


def types(call):
    listed = json.loads(call("consumers", "--json")[1])["consumers"]
    return {name: each["type"] for each in listed for name in ("server", "volume") if each["uuid"] == uuid_of(name)}


def test_consumers_of_several_hosts_do_not_move_to_one_of_them(real):
    claim(real, "other", "resources=VCPU:1&in_tree=name:host-2")
    moves = json.loads(real("plan", "drain", "host-1", "host-2", "gpu-1", "--json")[1])["moves"]
    assert len(moves) == 4
    assert real("plan", "drain", "host-1", "host-2", "--execute")[0] == 0
    assert {host for name in ("vm-2", "vm-3", "vm-4", "other") for host in hosts_of(real, name)} == {"host-3"}


def test_consumers_move_where_an_order_says(real):
    claim(real, "other", "resources=VCPU:4&in_tree=name:host-2")
    for order, host in (("spread", "host-3"), ("pack", "host-2")):
        assert f"host-1 → {host}: 3 VCPU" in real("plan", "drain", "host-1", "--order", order)[1]
    code, out, err = real("plan", "drain", "host-1", "--order", "best")
    assert (code, out) == (2, "")
    assert "'best' is no order" in err


def test_consumers_without_a_place_stop_a_plan_that_is_not_partial(real):
    claim(real, "gpu", "resources=VGPU:1")
    code, out, err = real("plan", "drain", "host-1")
    assert (code, err) == (1, "")
    assert f"   –  {uuid_of('gpu')}  host-1, no place: 1 VGPU\n" in out
    code, out, err = real("plan", "drain", "host-1", "--execute")
    assert (code, err) == (1, "stead: nothing was moved: 1 consumer has no place; --partial moves the others\n")
    assert hosts_of(real, "vm-2") == {"host-1"}
    assert "disabled" not in real("tree")[1]
    code, out, err = real("plan", "drain", "host-1", "--execute", "--partial")
    assert (code, err) == (1, "stead: 1 consumer remains\n")
    assert "made 3 of 3 moves\n" in out
    assert hosts_of(real, "gpu") == {"host-1"}


ROOM = f"""\
Fits 2 times now, and 3 times after 1 move. No plan has fewer.

move  consumer                              from → to
   1  {uuid_of("vm-4")}  host-1 → HOST: 3 VCPU
"""


def test_a_plan_that_makes_room_is_shown_and_executed(real):
    code, out, err = real("plan", "room", "resources=VCPU:5", "--times", "3")
    assert (code, same_host(out), err) == (0, ROOM, "")
    assert hosts_of(real, "vm-4") == {"host-1"}
    code, out, err = real("plan", "room", "resources=VCPU:5", "--times", "3", "--execute")
    assert (code, same_host(out), err) == (0, f"{ROOM}made 1 of 1 moves\n", "")
    assert hosts_of(real, "vm-4") <= {"host-2", "host-3"}
    told = json.loads(real("plan", "room", "resources=VCPU:5", "--times", "3", "--execute", "--json")[1])
    assert (told["moves"], told["made"], told["stopped"]) == ([], 0, None)


def test_where_there_is_room_nothing_moves(real):
    assert real("plan", "room", "resources=VCPU:8") == (0, "Fits 2 times now, without any move.\n", "")


def test_room_that_cannot_be_made_is_an_answer(real):
    code, out, err = real("plan", "room", "resources=VCPU:8", "--times", "4", "--execute")
    assert (code, out, err) == (1, "Fits 2 times now. No moves make it fit 4 times.\n", "")
    out = real("plan", "room", "resources=VCPU:8", "--times", "3")[1]
    assert (
        out.replace("\n", " ") == "Fits 2 times now. No plan was found with which it fits 3 times, but one may exist. "
    )


def test_room_is_made_for_a_flavor(real):
    assert real("flavors", "set", "large", "resources=VCPU:5")[0] == 0
    assert same_host(real("plan", "room", "--flavor", "large", "--times", "3")[1]) == ROOM


IMPROVED = f"""\
Value for the mix 34 now, and 39 (+14.71 %) after 1 move.

move  consumer                              from → to
   1  {uuid_of("vm-4")}  host-1 → HOST: 3 VCPU
"""


def test_moves_that_improve_the_mix_are_shown_and_made(real):
    none = "stead: the site has no flavors; `stead flavor set` stores one\n"
    assert real("plan", "improve") == (1, "", none)
    assert real("flavors", "set", "large", "resources=VCPU:5")[0] == 0
    code, out, err = real("plan", "improve")
    assert (code, same_host(out), err) == (0, IMPROVED, "")
    code, out, err = real("plan", "improve", "--moves", "1", "--execute", "--json")
    assert (code, json.loads(out)["made"], err) == (0, 1, "")
    assert hosts_of(real, "vm-4") <= {"host-2", "host-3"}
    assert real("plan", "improve")[1] == "Value for the mix 39 now. No move raises it.\n"


def test_a_host_that_does_not_exist_is_refused(real):
    assert real("plan", "drain", "hos-1") == (1, "", "stead: no resource provider 'hos-1'. Did you mean host-1?\n")


HOST = "5a0e4c8e-7f6c-4f0b-9a56-2f6f1f0f6d11"


def can_plan(server, *consumers):
    """The answers to the plan of one host with *consumers*."""
    host = {"uuid": HOST, "name": "host", "parent_provider_uuid": None, "generation": 1, "disabled": None}
    record = {**host, "inventories": {}, "usages": {}, "traits": [], "aggregates": []}
    page = {"provider_trees": [{"root_provider_uuid": HOST, "providers": [record]}], "provider_count": 1, "links": []}
    server.can("GET /provider_trees?in_tree=name:host", page)
    server.can(
        f"PATCH /provider_trees/{HOST}",
        {"disabled": {"reason": "drained", "since": "t", "until": None, "provider_uuid": HOST}},
    )
    owner = {"consumer_generation": 1, "project_id": "p", "user_id": "u", "consumer_type": "X"}
    amounts = {"from": {"u": {"resources": {"VCPU": 1}}}, "allocations": {"v": {"resources": {"VCPU": 1}}}}
    moves = [{"consumer_uuid": consumer, **owner, **amounts} for consumer in consumers]
    server.can("POST /whatif", {"moves": moves, "without_place": [], "generation": "t"})
    for uuid in "uv":
        server.can(f"GET /resource_providers?in_tree={uuid}", {"resource_providers": []})


def test_execution_stops_at_a_move_that_is_not_valid_any_more(server, stead):
    can_plan(server, "one", "two", "three")
    server.can("PUT /allocations/one", None, 204)
    server.can("GET /allocations/one", {"allocations": {}})
    server.refuse("PUT /allocations/two", 409, "consumer generation conflict", "placement.concurrent_update")
    server.can("GET /allocations/two", {"allocations": {}})
    ran = stead("plan", "drain", "host", "--execute")
    assert ran.code == 1
    assert ran.err == "stead: stopped at move 2, of consumer two: consumer generation conflict (409)\n"
    assert ran.out.endswith("disabled host\nmade 1 of 3 moves\n")
    assert [call for call in server.calls("PUT") if "three" in call] == []
    told = stead("plan", "drain", "host", "--execute", "--json").json
    assert told["made"] == 1
    assert told["stopped"] == {"move": 2, "consumer": "two", "reason": "consumer generation conflict (409)"}


def test_hosts_are_disabled_before_the_plan_that_is_executed_is_made(server, stead):
    can_plan(server)
    assert stead("plan", "drain", "host", "--execute").code == 0
    calls = [call for call in server.calls() if call.startswith(("PATCH", "POST"))]
    assert calls == ["POST /whatif", f"PATCH /provider_trees/{HOST}", "POST /whatif", "POST /whatif"]
