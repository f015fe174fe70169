"""Answers of a server to every call of the library, recorded and played back.

``python -m tests.rooms.client.recording`` writes ``recorded/VERSION.json`` with the answers of this checkout. Do that
before a release: the library of the next release is tested against it.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stead
from stead import Group, Node, Request, Site, testing
from stead.client.blocking.transport import InProcess
from stead.client.calls import Call, Reply

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDED = Path(__file__).parent / "recorded"

JOB = Request(Group(VCPU=2), Group("gpu", PGPU=1), order="pack")
HEADERS = ("etag", "openstack-api-version", "retry-after", "stead-incomplete")


def exercise(site: Site, version: str = stead.__version__) -> dict[str, str]:
    """Call every method of a site and of a claim that sends something; what each returned or raised, as text.

    Args:
        version: the release of the answers: methods that it did not have are not called.
    """
    results: dict[str, str] = {}

    def note(name: str, value: Any) -> Any:
        results[name] = str(value)
        return value

    uuids = [str(stead.uuid_of(f"provider-{number}")) for number in range(2)]
    gpu = Node("gpu", uuid=uuids[1], PGPU=1)
    note("supports", site.supports("1.1"))
    note("apply", site.apply(Node("host", uuid=uuids[0], VCPU=8, traits="CUSTOM_A", children=[gpu]), create_names=True))
    note("apply dry run", site.apply(Node("host", VCPU=9), dry_run=True).changes)
    note("provider", site.provider("gpu").rooms)
    note("providers", sorted(provider.name for provider in site.providers(required="CUSTOM_A")))
    note("tree", [(each.name, each.traits, each.inventories) for each in site.tree("host")])
    note("trees", list(site.trees(name="h*")))
    note("names", site.names(uuids))
    candidates = note("candidates", site.candidates(JOB, limit=5))
    note("candidate", candidates[0].allocations)
    note("explain", site.explain(JOB))
    note("headroom", site.headroom(JOB).at_most)
    _flavors(site, note)
    watch = site.watch(since=site.request("GET", "/changes", stead="1.0")["token"])
    claim = note("claim", site.claim(JOB, "train"))
    note("watch", next(watch).kind)
    _move(claim, note)
    note("claim_all", site.claim_all([Request(Group(VCPU=1))] * 2, "gang"))
    note("find", site.find("train"))
    note("find nothing", site.find("other"))
    note("claims", sorted(each.consumer for each in site.claims(in_tree="host")))
    note("usages", site.usages())
    _planned(site, note)
    disabled = note("disable", site.disable("host", "repair"))
    note("disabled", disabled.reason)
    note("trees disabled", [each.disabled is not None for each in site.tree("host")])
    _refused(site, claim, note)
    note("enable", site.enable("host"))
    note("release", claim.release())
    note("release_all", site.release_all(project="lab"))
    note(
        "request",
        [each["name"] for each in site.request("GET", "/resource_providers", name="host")["resource_providers"]],
    )
    note("response", site.response("GET", "/traits", name="in:CUSTOM_A").status)
    if version != "0.1.0":
        _since_0_1_1(site, note)
    return results


def _since_0_1_1(site: Site, note: Callable[[str, Any], Any]) -> None:
    note("traits", site.traits("CUSTOM_"))
    note("resource_classes", "VCPU" in site.resource_classes())
    site.apply(Node("rack", uuid=str(stead.uuid_of("provider-rack")), VCPU=8))
    since = site.changes().token
    query = "resources=VCPU:1&in_tree=name:rack"
    claim = note("allocate", site.allocate(site.candidates(query)[0], "mine"))
    note("claim of a claim", site.claim(query, claim).amounts)
    note("changes", sorted(change.kind for change in site.changes(since).changes))
    note("allocations", list(site.allocations("rack").values()))
    note("totals", [tree.totals for tree in site.trees(depth=0, totals=True, name="rack")])
    site.put_flavor("m1", "resources=VCPU:3")
    note("mix", [(form.flavor, form.query, form.share) for form in site.mix().forms])
    note("forget_mix", site.forget_mix())
    stranded = site.stranded()
    note("stranded", (stranded.free, stranded.stranded, stranded.is_complete))
    improvement = site.improvement(2)
    note("improvement", (improvement.has_mix, improvement.gains, improvement.value_before, improvement.value_after))
    site.delete_flavor("m1")
    note("release by name", site.release("mine"))
    note("wait_for_room", len(site.wait_for_room(query, timeout=0)))
    note("delete_provider", site.delete_provider("rack"))
    shelf = Node("shelf", uuid=stead.uuid_of("provider-shelf"))
    site.apply(Node("rack", uuid=stead.uuid_of("provider-rack"), children=[shelf]))
    note("delete", site.delete("rack"))
    _since_leases(site, note)


def _since_leases(site: Site, note: Callable[[str, Any], Any]) -> None:
    site.apply(Node("lab", uuid=str(stead.uuid_of("provider-lab")), VCPU=8))
    query = "resources=VCPU:1&in_tree=name:lab"
    with site.hold(query, "held", lease=3600) as claim:
        note("hold", (claim.amounts, claim.on_expiry, claim.lost.is_set()))
        note("renew", site.renew(["held", "nobody"], 7200))
        note("claims that end", [each.amounts for each in site.claims(expires_before="1d")])
    note("held no more", site.find("held"))


def _move(claim: Any, note: Callable[[str, Any], Any]) -> None:
    claim.move(Request(Group(VCPU=3), order="pack"))
    note("move", claim.allocations)


def _flavors(site: Site, note: Callable[[str, Any], Any]) -> None:
    stored = site.put_flavor("m1", JOB, "a job")
    note("put_flavor", (stored.name, stored.query, stored.description))
    note("flavor", site.flavor("m1").request)
    note("flavors", [(flavor.name, flavor.headroom) for flavor in site.flavors(headroom=True)])
    mix = site.headroom_of_mix({"m1": 2})
    note("headroom_of_mix", (mix.at_least, mix.at_most, mix.limited_by, mix.stranded))
    note("delete_flavor", site.delete_flavor("m1"))


def _planned(site: Site, note: Callable[[str, Any], Any]) -> None:
    answer = site.what_if(
        stead.Copy("host"), stead.Drain("host"), candidates=JOB, explain=JOB, headroom=JOB, totals=True
    )
    note("what_if", (len(answer.moves), answer.without_place, answer.headroom.at_most, answer.totals))
    note("what_if candidates", len(answer.candidates))
    advice = site.advice(JOB, 50)
    note("advice", (advice.is_found, advice.is_impossible, advice.fewest_moves, advice.fits_before, advice.fits_after))
    site.apply(Node("host-2", VCPU=8))
    moves = site.what_if(stead.Drain("host")).moves
    gang = next(move for move in moves if move.consumer == stead.uuid_of("gang-0"))
    note("move to another host", site.move(gang).allocations)


def _refused(site: Site, claim: Any, note: Callable[[str, Any], Any]) -> None:
    """Calls that fail; the type of each error."""

    def error_of(call: Callable[[], object]) -> str:
        try:
            call()
        except stead.Refused as error:
            return f"{type(error).__name__} {error.status} {error.code}"
        return "none"

    note("nothing fits", error_of(lambda: site.claim(Request(Group(VCPU=1)), "late")))
    note("unknown trait", error_of(lambda: site.candidates(Request(Group(VCPU=1, required="CUSTOM_NONE")))))
    note("no provider", error_of(lambda: site.provider("nobody")))
    note("capacity below use", error_of(lambda: site.apply(Node("host", VCPU=1))))
    note("stale", error_of(lambda: site.claim(Request(Group(VCPU=7)), claim.consumer)))


class Recording:
    """A transport that keeps what another one answers."""

    longest_wait = 1

    def __init__(self, transport: InProcess) -> None:
        self.shown = transport.shown
        self.calls: list[dict[str, Any]] = []
        self._transport = transport

    def send(self, call: Call, headers: dict[str, str], timeout: float) -> Reply:
        reply = self._transport.send(call, headers, timeout)
        recorded = {name: value for name, value in reply.headers.items() if name in HEADERS}
        answer = {
            "status": reply.status,
            "headers": recorded,
            "body": json.loads(reply.content) if reply.content else None,
        }
        self.calls.append({"call": key_of(call), "versions": call.versions, **answer})
        return reply

    def close(self) -> None:
        self._transport.close()


class Replaying:
    """A transport that answers as it was recorded: the calls of one method and path in the order of the recording.

    Args:
        change: makes another answer of each recorded body; called with the method and path, and the body.
    """

    longest_wait = 1
    shown = "a recording"

    def __init__(
        self, calls: list[dict[str, Any]], change: Callable[[str, Any], Any] = lambda _call, body: body
    ) -> None:
        self._answers: dict[str, deque[dict[str, Any]]] = defaultdict(deque)
        self._change = change
        for answer in calls:
            self._answers[answer["call"]].append(answer)

    def send(self, call: Call, _headers: dict[str, str], _timeout: float) -> Reply:
        answers = self._answers[key_of(call)]
        assert answers, f"{key_of(call)} was not recorded; run python -m tests.rooms.client.recording"
        # The last one is used again: earlier releases did not read a consumer to word an error.
        answer = answers[0] if len(answers) == 1 and call.method == "GET" else answers.popleft()
        body = answer["body"]
        content = b"" if body is None else json.dumps(self._change(answer["call"], body)).encode()
        return Reply(answer["status"], dict(answer["headers"]), content)

    def close(self) -> None:
        pass


def key_of(call: Call) -> str:
    """The method and the path, without the query."""
    return f"{call.method} {call.target.partition('?')[0]}"


def record() -> dict[str, Any]:
    """What a server of this checkout answers, and what the library makes of it."""
    with testing.deterministic_uuids(), testing.site(project="lab") as live:
        transport = Recording(InProcess(live.faults, "in memory", lambda: None))
        results = exercise(Site(transport, "admin", project="lab"))
    return {"version": stead.__version__, "calls": transport.calls, "results": results}


if __name__ == "__main__":
    made = record()
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{made['version']}.json").write_text(json.dumps(made, indent=1) + "\n")
