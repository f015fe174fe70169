"""Any site, written in documents of trees, is read as it was written; by either way it is the same site."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_OID, uuid5

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stead
from stead.cli import sites as site_documents
from stead.cli import sites as site_providers
from stead.cli.sites import Manner, Watcher, read_snapshot
from stead.client.calls import Call, Reply
from stead.client.errors import Invalid
from stead.domain.provider import Inventory
from stead.topology.document import dump, load
from stead.topology.site import Description, Site, site_of
from tests.rooms.client.test_other_versions import newer
from tests.rooms.topology.sites import sites
from tests.selection import examples
from tests.system.api.client import NEWEST, Api

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.differs("it has nothing of Stead's own"), pytest.mark.timeout(300)]  # hundreds of requests

some = settings(
    max_examples=examples(15, quick=4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
EVERYTHING = Manner(prune_all=True)


class Transport:
    """The API of the tests, as the library sends calls."""

    longest_wait = 0
    shown = "the API of the tests"

    def __init__(self, api: Api) -> None:
        self._api = api.at(NEWEST)
        self._own = api.at(f"{NEWEST}, stead 1.1")

    def send(self, call: Call, _headers: dict[str, str], _timeout: float) -> Reply:
        answer = (self._own if call.stead else self._api).call(call.method, call.target, call.body)
        return Reply(answer.status, {name.lower(): value for name, value in answer.headers}, answer.body)

    def close(self) -> None:
        pass


class NewerTransport(Transport):
    """The same with a newer server, whose answers have more fields."""

    def send(self, call: Call, headers: dict[str, str], timeout: float) -> Reply:
        reply = super().send(call, headers, timeout)
        return replace(reply, content=json.dumps(newer(call.target, reply.json())).encode()) if reply.content else reply


def commands_of(api: Api, transport: type[Transport] = Transport) -> stead.Site:
    """The site that commands use."""
    return stead.Site(transport(api), None, retry=False)


@pytest.fixture
def commands(empty_api: Api) -> stead.Site:
    return commands_of(empty_api)


def read(commands: stead.Site) -> Site:
    return read_snapshot(commands, Watcher(), allocations=False).site


def apply(commands: stead.Site, site: Site, manner: Manner, size: int = 100) -> site_providers.Outcome:
    return site_documents.apply_documents(commands, site, Watcher(), manner, size=size)


def shown(inventory: Inventory) -> Inventory:
    """In the precision of the ratio that every database has."""
    return replace(inventory, allocation_ratio=float(f"{inventory.allocation_ratio:.6g}"))


def rounded(site: Site) -> Site:
    """A site whose ratios come back from every database."""
    return site_of(
        replace(one, inventories={name: shown(inventory) for name, inventory in one.inventories.items()})
        for one in site.providers.values()
    )


rounded_sites = sites().filter(lambda site: all(_is_normal(one) for one in site.providers.values())).map(rounded)


def _is_normal(described: Description) -> bool:
    return all(one.allocation_ratio == 0 or one.allocation_ratio > 1e-30 for one in described.inventories.values())


def without_uuids(site: Site) -> dict[str, tuple[object, ...]]:
    return {
        name: (one.parent, dict(one.inventories), one.traits, one.aggregates) for name, one in site.providers.items()
    }


def with_uuids(site: Site) -> Site:
    return site_of(
        Description(
            one.name, str(uuid5(NAMESPACE_OID, one.name)), one.parent, one.inventories, one.traits, one.aggregates
        )
        for one in site.providers.values()
    )


@some
@given(before=rounded_sites, after=rounded_sites, size=st.integers(1, 9))
def test_one_site_after_another_is_the_second(commands: stead.Site, before: Site, after: Site, size: int) -> None:
    apply(commands, before, EVERYTHING)
    manner = Manner(prune_all=True) if size > 8 else Manner(exact=True)
    apply(commands, after, manner, size)
    expected = without_uuids(after) if manner.prune_all else without_uuids(before) | without_uuids(after)
    assert without_uuids(read(commands)) == expected


@some
@given(before=rounded_sites, after=rounded_sites)
def test_pruned_trees_are_as_described_and_others_stay(commands: stead.Site, before: Site, after: Site) -> None:
    apply(commands, before, EVERYTHING)
    apply(commands, after, Manner(prune=True))
    site = without_uuids(read(commands))
    assert {name: site[name] for name in after.providers} == without_uuids(after)
    for name in site.keys() - after.providers.keys():
        top: Any = name
        while site[top][0] is not None:
            top = site[top][0]
        assert top not in after.providers
        assert site[name] == without_uuids(before)[name]


@some
@given(site=sites(), size=st.integers(1, 9))
def test_what_was_applied_and_dumped_changes_nothing_when_it_is_applied_again(
    commands: stead.Site, site: Site, size: int
) -> None:
    apply(commands, site, EVERYTHING)
    tag = commands.response("GET", "/provider_trees", stead="1.1").headers["etag"]
    dumped = load(dump(read(commands)))
    for again in (site, dumped):
        for manner in (Manner(), Manner(exact=True), Manner(prune=size > 8), Manner(prune_all=True)):
            outcome = apply(commands, again, manner, 100 if manner.prune_all else size)
            assert (outcome.steps, outcome.kept, outcome.overcommitted) == ([], (), ())
    assert commands.response("GET", "/provider_trees", stead="1.1").headers["etag"] == tag


@some
@given(before=rounded_sites, after=rounded_sites)
def test_a_dry_run_plans_what_is_done_then(commands: stead.Site, before: Site, after: Site) -> None:
    apply(commands, before, EVERYTHING)
    rehearsed = apply(commands, after, Manner(prune_all=True, dry_run=True))
    assert without_uuids(read(commands)) == without_uuids(before)
    assert apply(commands, after, EVERYTHING) == rehearsed


def everything_said(commands: stead.Site) -> Any:
    """All that the GETs of the Placement API tell of providers."""
    listed = commands.request("GET", "/resource_providers")["resource_providers"]
    parts = ("inventories", "usages", "traits", "aggregates", "allocations")
    return (
        sorted(listed, key=lambda one: str(one["uuid"])),
        {one["uuid"]: commands.request("GET", f"/resource_providers/{one['uuid']}") for one in listed},
        {
            (one["uuid"], part): _sorted(commands.request("GET", f"/resource_providers/{one['uuid']}/{part}"))
            for one in listed
            for part in parts
        },
        commands.request("GET", "/allocation_candidates?resources=VCPU:1")["provider_summaries"],
    )


def _sorted(said: dict[str, Any]) -> dict[str, Any]:
    return {key: sorted(value) if isinstance(value, list) else value for key, value in said.items()}


@some
@given(site=rounded_sites.map(with_uuids), size=st.integers(1, 9))
def test_a_site_in_documents_is_the_site_of_single_calls(commands: stead.Site, site: Site, size: int) -> None:
    """Its generations too."""
    ways: list[Callable[[], object]] = [
        lambda: site_providers.apply_steps(commands, site, Watcher()),
        lambda: apply(commands, site, Manner(), size),
    ]
    said = []
    for way in ways:
        apply(commands, site_of([]), EVERYTHING)
        assert commands.request("GET", "/resource_providers")["resource_providers"] == []
        way()
        said.append(everything_said(commands))
    assert said[0] == said[1]


def test_parts_are_whole_trees_and_a_failure_names_the_written_ones(commands: stead.Site) -> None:
    names = [f"part-{number}" for number in range(6)]
    apply(commands, site_of([]), EVERYTHING)
    site = site_of(
        [*(Description(name) for name in names), Description("below", parent=names[3], traits=frozenset({"HW_NONE"}))]
    )
    with pytest.raises(
        Invalid, match=r"unknown trait HW_NONE.*\(in the part part-3 to below\); 3 providers in 2 parts"
    ):
        apply(commands, site, Manner(), 2)
    assert set(read(commands).providers) == set(names[:3])


def test_consumers_are_dumped_with_the_providers_of_the_same_moment(empty_api: Api, commands: stead.Site) -> None:
    apply(commands, site_of([]), EVERYTHING)
    host = empty_api.create_provider(inventories={"VCPU": 8})
    consumer = empty_api.claim((host, {"VCPU": 2}))
    (holder,) = read_snapshot(commands, Watcher(), allocations=True).holders or []
    assert (holder.uuid, holder.allocations) == (consumer, {host.name: {"VCPU": 2}})
    empty_api.delete(f"/allocations/{consumer}").expect(204)


@pytest.mark.parametrize("has_documents", [True, False], ids=["documents", "single calls"])
def test_a_newer_server_may_add_fields(empty_api: Api, has_documents: bool) -> None:
    commands = commands_of(empty_api, NewerTransport)
    before = site_of([Description("rack", None, None, {"VCPU": Inventory(8, reserved=1)})])
    after = site_of([Description("rack", None, None, {"VCPU": Inventory(9)}, traits=frozenset({"HW_CPU_X86_AVX2"}))])
    for described in (before, after):
        if has_documents:
            apply(commands, described, EVERYTHING)
        else:
            site_providers.apply_steps(commands, described, Watcher(), prune=True)
        assert without_uuids(read(commands)) == without_uuids(described)
