"""The library with a server of another release: one release older, one newer, and OpenStack Placement."""

import inspect
import json
import re

import pytest

import stead
from stead import Group, Node, Request, Site, testing
from stead.client.blocking.transport import InProcess
from stead.client.calls import Reply
from tests.rooms.client import recording
from tests.rooms.client.recording import RECORDED, Replaying, exercise, record

RECORDINGS = sorted(RECORDED.glob("*.json"))
THIS = RECORDED / f"{stead.__version__}.json"

MAPS = frozenset(
    {
        "allocations",
        "free",
        "from",
        "inventories",
        "mappings",
        "provider_summaries",
        "resources",
        "stranded",
        "totals",
        "usages",
    }
)
"""Fields whose value is an object with a key for each provider, class or group: their keys are not fields."""


def played(path, change=lambda _call, body: body):
    """What the library makes of a recording, and what it made of it when it was recorded."""
    recorded = json.loads(path.read_text())
    with Site(Replaying(recorded["calls"], change), "admin", project="lab") as site:
        return exercise(site, recorded["version"]), recorded["results"]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_the_answers_of_a_release_are_understood(path):
    now, then = played(path)
    assert {name: now[name] for name in then} == then


def test_every_method_that_sends_is_recorded():
    called = inspect.getsource(recording)
    methods = {name for kind in (*Site.__mro__, stead.Claim) for name in vars(kind) if not name.startswith("_")}
    without_calls = {"close", "document", "tries", "url"}
    without_calls.add("places")  # sends what `names` sends, and how often depends on the time since then
    assert {name for name in methods - without_calls if not re.search(rf"\.{name}\(", called)} == set()


def test_the_recording_of_this_version_is_what_the_server_answers_now():
    """Otherwise run ``python -m tests.rooms.client.recording``."""
    before, now = json.loads(THIS.read_text()), record()
    assert [each["call"] for each in now["calls"]] == [each["call"] for each in before["calls"]]
    for recorded, answered in zip(before["calls"], now["calls"], strict=True):
        assert answered["status"] == recorded["status"]
        assert shape(answered["body"]) == shape(recorded["body"]), answered["call"]


def shape(value, *, is_map=False):
    """The fields of *value* without their contents."""
    if isinstance(value, dict):
        shapes = {key: shape(each, is_map=key in MAPS) for key, each in value.items()}
        return sorted(map(str, shapes.values())) if is_map else shapes
    if isinstance(value, list):
        return sorted({str(shape(each)) for each in value})
    return type(value).__name__


def newer(call, value, *, is_map=False):
    """*value* as a newer server may send it: with more fields, links, kinds of changes and versions."""
    if isinstance(value, list):
        return [newer(call, each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: newer(call, each, is_map=key in MAPS or call == "GET /usages") for key, each in value.items()}
    if "links" in made:
        made["links"] = [{"rel": "last", "href": "/elsewhere", "added_later": 1}, *made["links"]]
    if "differences" in made:
        made["changes"] = [*made["changes"], "repainted"]
    if "parameter" in made and "removed" in made:
        made = {"colour": "red", "removed": made["removed"], "left": made["left"]}  # another kind of constraint
    if "max_version" in made:
        made["max_version"] = "1.99"
    return made if is_map else {**made, "added_later": {"fields": [1, None]}}


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_newer_server_may_add_fields_and_values(path):
    now, then = played(path, newer)
    assert "repainted" in now.pop("apply dry run")
    assert "another constraint" in now.pop("explain")
    assert now == {name: then[name] for name in now}


def without(*fields):
    """A change of bodies: as of a server that does not know *fields* yet."""

    def change(call, value):
        if call.startswith("PATCH"):
            return value
        if isinstance(value, list):
            return [change(call, each) for each in value]
        if isinstance(value, dict):
            return {key: change(call, each) for key, each in value.items() if key not in fields}
        return value

    return change


OPTIONAL = ("created_at", "disabled", "links", "code", "request_id", "stead")


@pytest.mark.parametrize("field", OPTIONAL)
def test_an_older_server_may_lack_what_was_added_later(field):
    """These are the fields that some supported server does not send; all others are there since Stead 0.1."""
    now, then = played(THIS, without(field))
    assert now.keys() == then.keys()
    differing = {name for name in then if now[name] != then[name]}
    expected = {
        "code": {"nothing fits", "unknown trait", "capacity below use", "stale"},
        "disabled": {"trees disabled"},
        "stead": {"supports"},
    }
    assert differing <= expected.get(field, set())


class Older:
    """A server that has Stead's own features only up to 1.0, or none."""

    longest_wait = 1

    def __init__(self, application, *, has_own):
        self._transport = InProcess(application, "in memory", lambda: None)
        self.shown = self._transport.shown
        self._has_own = has_own

    def send(self, call, headers, timeout):
        if call.stead not in (None, "1.0") and self._has_own:
            error = {"status": 406, "detail": f"Unacceptable version header: {call.stead}", "max_version": "1.0"}
            return Reply(406, {}, json.dumps({"errors": [error]}).encode())
        reply = self._transport.send(call, headers, timeout)
        if call.target == "/" and self._has_own:
            return Reply(200, {}, reply.content.replace(b'"max_version":"1.2"', b'"max_version":"1.0"'))
        return reply

    def close(self):
        self._transport.close()


JOB = Request(Group(VCPU=1))
CALLS = {
    "candidates": (lambda site: site.candidates(JOB), True, True),
    "find": (lambda site: site.find("job"), True, True),
    "usages": (lambda site: site.usages(), True, True),
    "request": (lambda site: site.request("GET", "/traits"), True, True),
    "providers": (lambda site: list(site.providers(name="host")), True, True),
    "headroom": (lambda site: site.headroom(JOB), False, False),
    "headroom as an order": (lambda site: site.claim(Request(Group(VCPU=1), order="headroom"), "job"), False, False),
    "a lease": (lambda site: site.claim(JOB, "job", lease=60), False, False),
    "hold": (lambda site: site.hold(JOB, "job").__enter__(), False, False),
    "renew": (lambda site: site.renew(["job"], 60), False, False),
    "claims that end": (lambda site: list(site.claims(expires_before="1d")), False, False),
    "a weight": (lambda site: site.put_flavor("job", JOB, weight=2), False, False),
    "explain": (lambda site: site.explain(JOB), True, False),
    "claim": (lambda site: site.claim(JOB, "job"), True, False),
    "claims": (lambda site: list(site.claims(project="lab")), True, False),
    "release_all": (lambda site: site.release_all(project="lab"), True, False),
    "claims of a host": (lambda site: list(site.claims(in_tree="host")), True, True),
    "watch": (lambda site: next(site.watch(heartbeat=0.01)), True, False),
    "tree": (lambda site: site.tree("host"), True, True),
    "places": (lambda site: site.places([str(stead.uuid_of("host"))]), True, True),
    "allocate": (lambda site: site.allocate(site.candidates(JOB)[0], "job"), True, True),
    "allocations": (lambda site: site.allocations("host"), True, True),
    "delete_provider": (lambda site: site.delete_provider("host"), True, True),
    "delete": (lambda site: site.delete("host"), True, True),
    "wait_for_room": (lambda site: site.wait_for_room(JOB), True, True),
    "traits": (lambda site: site.traits(), True, True),
    "resource_classes": (lambda site: site.resource_classes(), True, True),
    "changes": (lambda site: site.changes(), True, False),
    "trees with sums": (lambda site: list(site.trees(totals=True)), False, False),
    "trees": (lambda site: list(site.trees()), True, True),
    "names": (lambda site: site.names([str(stead.uuid_of("host"))]), True, True),
    "apply": (lambda site: site.apply(Node("host", VCPU=2)), False, False),
    "disable": (lambda site: site.disable(stead.uuid_of("host"), "repair"), False, False),
}
"""A call; whether it works with a Stead that has only 1.0; whether it works with OpenStack Placement."""


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("has_own", [True, False], ids=["stead 1.0", "placement"])
def test_an_older_server_does_it_or_is_said_to_lack_it(name, has_own):
    call, with_first, with_none = CALLS[name]
    with testing.site(project="lab", upstream_only=not has_own) as live:
        uuid = str(stead.uuid_of("host"))
        live.request("POST", "/resource_providers", {"name": "host", "uuid": uuid})
        live.request("POST", f"/resource_providers/{uuid}/inventories", {"resource_class": "VCPU", "total": 8})
        site = Site(Older(live.faults, has_own=has_own), "admin", project="lab", timeout=5)
        if with_first if has_own else with_none:
            call(site)
        else:
            with pytest.raises(stead.Unsupported, match=r"1\.0 at most|requires Stead") as refused:
                call(site)
            assert refused.value.status in (404, 405, 406)
            assert not site.supports("1.1")


def test_a_lease_of_a_chosen_candidate_needs_a_server_with_leases():
    for has_own in (True, False):
        with testing.site(project="lab", upstream_only=not has_own) as live:
            live.request("POST", "/resource_providers", {"name": "host", "uuid": str(stead.uuid_of("host"))})
            inventory = {"resource_class": "VCPU", "total": 8}
            live.request("POST", f"/resource_providers/{stead.uuid_of('host')}/inventories", inventory)
            site = Site(Older(live.faults, has_own=has_own), "admin", project="lab", timeout=5)
            (candidate,) = site.candidates(JOB)
            with pytest.raises(stead.Unsupported, match=r"1\.0 at most|lease requires Stead 1\.2"):
                site.allocate(candidate, "job", lease=60)
            assert site.find("job") is None


def test_trees_and_claims_of_placement_are_read_provider_by_provider():
    with testing.site(project="lab", upstream_only=True) as live:
        host, numa = (str(stead.uuid_of(name)) for name in ("host", "numa"))
        live.request("POST", "/resource_providers", {"name": "host", "uuid": host})
        below = {"name": "numa", "uuid": numa, "parent_provider_uuid": host}
        live.request("POST", "/resource_providers", below)
        live.request("POST", "/resource_providers", {"name": "empty"})
        live.request("POST", f"/resource_providers/{numa}/inventories", {"resource_class": "VCPU", "total": 8})
        trait = {"traits": ["HW_CPU_X86_AVX"], "resource_provider_generation": 0}
        live.request("PUT", f"/resource_providers/{host}/traits", trait)
        site = Site(Older(live.faults, has_own=False), "admin", project="lab", timeout=5)
        claim = site.allocate(site.candidates("resources=VCPU:2")[0], "job")
        assert sorted([each.name for each in tree] for tree in site.trees()) == [["empty"], ["host", "numa"]]
        tree = site.tree("numa")
        assert (tree.root.traits, tree.find("numa").rooms["VCPU"].free) == ({"HW_CPU_X86_AVX"}, 6)
        assert site.places(claim) == {numa: stead.Place("numa", "host")}
        assert [each.allocations for each in site.claims(in_tree="host")] == [{numa: {"VCPU": 2}}]
        assert list(site.claims(in_tree="host", user="other")) == list(site.claims(provider="host")) == []
        with pytest.raises(stead.NotFound):
            site.tree("other")


def test_a_recording_that_lacks_a_call_says_which():
    site = Site(Replaying([]), "admin")
    with pytest.raises(AssertionError, match="GET /traits was not recorded"):
        site.request("GET", "/traits")
