import pytest
from hypothesis import HealthCheck, given, settings

from stead.cli.errors import Negative
from stead.cli.sites import ATTEMPTS, Watcher, apply_steps, read_site, rehearse
from stead.client.errors import NotAllowed
from stead.domain.provider import Inventory
from stead.topology.document import load
from stead.topology.plan import CreateProvider, DeleteProvider, MoveProvider, NotPruned, SetInventories
from stead.topology.site import Site, SiteError
from tests.rooms.cli.sites.server import Server
from tests.rooms.topology.sites import sites

HOST = """
providers:
- name: host
  traits: [COMPUTE_NODE]
  children:
  - name: numa
    inventories: {VCPU: 8, MEMORY_MB: 1024}
    traits: [HW_NUMA_ROOT, CUSTOM_BLUE]
"""


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine


def apply_text(server: Server, text: str, *, prune: bool = False):
    return apply_steps(server, load(text), Watcher(), prune=prune)


def without_uuids(site: Site) -> dict[str, tuple[object, ...]]:
    return {
        name: (provider.parent, dict(provider.inventories), provider.traits, provider.aggregates)
        for name, provider in site.providers.items()
    }


def on(server: Server) -> dict[str, tuple[object, ...]]:
    return without_uuids(read_site(server, Watcher()))


@unhurried
@given(sites(), sites())
def test_pruned_the_server_says_exactly_what_the_site_says(before: Site, after: Site):
    server = Server()
    apply_steps(server, before, Watcher(), prune=True)
    apply_steps(server, after, Watcher(), prune=True)
    assert on(server) == without_uuids(after)


@unhurried
@given(sites(), sites())
def test_unpruned_nothing_is_removed(before: Site, after: Site):
    server = Server()
    apply_steps(server, before, Watcher(), prune=False)
    try:
        apply_steps(server, after, Watcher(), prune=False)
    except SiteError:  # the two together would close a loop
        assert on(server) == without_uuids(before)
        return
    said = on(server)
    for name, (parent, inventories, traits, aggregates) in without_uuids(before).items():
        described = after.providers.get(name)
        assert said[name][0] == (described.parent if described else parent)
        assert said[name][1] == {**inventories, **(described.inventories if described else {})}
        assert said[name][2] >= traits
        assert said[name][3] >= aggregates


@unhurried
@given(sites(), sites())
def test_exact_described_providers_are_as_described_and_others_stay(before: Site, after: Site):
    server = Server()
    apply_steps(server, before, Watcher(), prune=True)
    try:
        apply_steps(server, after, Watcher(), exact=True)
    except SiteError:  # the two together would close a loop
        return
    assert on(server) == without_uuids(before) | without_uuids(after)


def test_exact_inventory_in_use_is_kept_and_reported():
    server = Server()
    apply_text(server, HOST)
    server.allocate("numa", "VCPU", 2)
    outcome = apply_steps(server, load("providers: [{name: numa, parent: host}]"), Watcher(), exact=True)
    assert outcome.kept == (NotPruned("numa", "VCPU", "2 in use"),)
    assert set(server.named("numa")["inventories"]) == {"VCPU"}
    assert server.named("host")["traits"] == ["COMPUTE_NODE"]


@unhurried
@given(sites(), sites())
def test_applying_twice_changes_nothing_the_second_time(before: Site, after: Site):
    server = Server()
    for prune in (False, True):
        apply_steps(server, before, Watcher(), prune=True)
        try:
            apply_steps(server, after, Watcher(), prune=prune)
        except SiteError:
            continue
        server.writes.clear()
        assert apply_steps(server, after, Watcher(), prune=prune).steps == []
        assert server.writes == []


def test_parents_are_made_before_their_children():
    steps = apply_text(Server(), "providers: [{name: a, parent: b}, {name: b, parent: c}, {name: c}]").steps
    assert [step.name for step in steps if isinstance(step, CreateProvider)] == ["c", "b", "a"]


def test_a_tree_can_be_turned_upside_down():
    server = Server()
    apply_text(server, "providers: [{name: a, children: [{name: b, children: [{name: c}]}]}]")
    steps = apply_text(server, "providers: [{name: c, children: [{name: b, children: [{name: a}]}]}]").steps
    assert [type(step) for step in steps] == [MoveProvider] * 3
    assert {name: said[0] for name, said in on(server).items()} == {"c": None, "b": "c", "a": "b"}


def test_what_others_added_stays_without_prune():
    server = Server()
    apply_text(server, HOST)
    server.named("numa")["traits"].append("STORAGE_DISK_SSD")
    apply_text(server, HOST.replace("VCPU: 8", "VCPU: 16"))
    assert set(server.named("numa")["traits"]) == {"HW_NUMA_ROOT", "CUSTOM_BLUE", "STORAGE_DISK_SSD"}
    assert server.named("numa")["inventories"]["VCPU"]["total"] == 16


def test_a_rehearsal_says_what_would_be_done_and_writes_nothing():
    server = Server()
    rehearsed = rehearse(server, load(HOST), Watcher(), prune=False)
    assert server.writes == []
    assert rehearsed == apply_text(server, HOST)


def test_providers_in_use_are_kept_with_their_ancestors_and_reported():
    server = Server()
    apply_text(server, HOST)
    server.allocate("numa", "VCPU", 2)
    outcome = apply_text(server, "providers: [{name: other}]", prune=True)
    assert not any(isinstance(step, DeleteProvider) for step in outcome.steps)
    assert outcome.kept == (
        NotPruned("numa", None, "it has allocations"),
        NotPruned("host", None, "it is the parent of numa, which stays"),
    )
    assert set(on(server)) == {"host", "numa", "other"}


def test_a_provider_that_is_not_described_stays_as_long_as_a_described_one_needs_it():
    server = Server()
    apply_text(server, HOST)
    outcome = apply_text(server, "providers: [{name: numa, parent: host}]", prune=True)
    assert outcome.kept == (NotPruned("host", None, "it is the parent of numa, which stays"),)


def test_inventory_in_use_is_kept_and_reported():
    server = Server()
    apply_text(server, HOST)
    server.allocate("numa", "VCPU", 2)
    outcome = apply_text(server, "providers: [{name: host, children: [{name: numa}]}]", prune=True)
    assert outcome.kept == (NotPruned("numa", "VCPU", "2 in use"),)
    assert set(server.named("numa")["inventories"]) == {"VCPU"}


def test_somebody_elses_change_is_read_and_the_rest_planned_anew():
    server = Server()
    apply_text(server, HOST)

    def allocate_once(server: Server) -> None:
        server.interfere = lambda _server: None
        server.allocate("numa", "VCPU", 1)

    server.interfere = allocate_once
    outcome = apply_text(server, HOST.replace("VCPU: 8, ", ""), prune=True)
    assert outcome.kept == (NotPruned("numa", "VCPU", "1 in use"),)
    assert outcome.steps == []


def test_a_change_between_two_reads_of_one_provider_is_not_overwritten():
    class Busy(Server):
        def get(self, path: str):
            said = super().get(path)
            provider = self.named("numa")
            if path == f"/resource_providers/{provider['uuid']}/inventories" and not said["inventories"]:
                provider["inventories"] = {"DISK_GB": {"total": 5}}  # after it was read, before its traits are
                provider["generation"] += 1
            return said

    server = Busy()
    server.post("/resource_providers", {"name": "numa"})
    apply_text(server, HOST)
    assert server.named("numa")["inventories"]["DISK_GB"]["total"] == 5


def test_somebody_who_is_always_faster_is_given_up_on():
    server = Server()
    apply_text(server, HOST)
    server.interfere = lambda server: server.allocate("numa", "VCPU", 1)
    with pytest.raises(
        Negative, match=f"gave up after {ATTEMPTS} attempts, 0 steps are done: could not set inventories"
    ):
        apply_text(server, HOST.replace("VCPU: 8", "VCPU: 9"))


def test_a_provider_deleted_meanwhile_is_made_again():
    server = Server()
    apply_text(server, HOST)

    def delete_once(server: Server) -> None:
        server.interfere = lambda _server: None
        del server.providers[server.named("numa")["uuid"]]

    server.interfere = delete_once
    apply_text(server, HOST.replace("VCPU: 8", "VCPU: 9"))
    assert on(server) == without_uuids(load(HOST.replace("VCPU: 8", "VCPU: 9")))


def test_a_refusal_says_at_which_step():
    server = Server()

    def refuse(_server: Server) -> None:
        raise NotAllowed(403, "Policy does not allow it.")

    server.interfere = refuse
    with pytest.raises(NotAllowed, match="could not create trait CUSTOM_BLUE: Policy does not allow it"):
        apply_text(server, HOST)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("providers: [{name: host, uuid: 0c0ffee0-0000-4000-8000-000000000001}]", "a provider cannot change its uuid"),
        ("providers: [{name: x, parent: nowhere}]", "its parent 'nowhere' is neither described nor on the server"),
        ("providers: [{name: host, parent: numa}]", "an ancestor of itself"),
        ("providers: [{name: x, traits: [HW_NOPE]}]", "unknown trait HW_NOPE"),
        ("providers: [{name: x, inventories: {NOPE: 1}}]", "unknown resource class NOPE"),
    ],
)
def test_what_cannot_be_brought_together_changes_nothing(text: str, complaint: str):
    server = Server()
    apply_text(server, HOST)
    server.writes.clear()
    with pytest.raises(SiteError, match=complaint):
        apply_text(server, text)
    assert server.writes == []


def test_a_uuid_of_another_provider_is_no_way_to_rename_it():
    server = Server()
    apply_text(server, HOST)
    with pytest.raises(SiteError, match="belongs to provider 'host' on the server"):
        apply_text(server, f"providers: [{{name: new, uuid: {server.named('host')['uuid']}}}]")


def test_a_step_says_what_differs():
    server = Server()
    apply_text(server, HOST)
    (step,) = rehearse(
        server, load(HOST.replace("VCPU: 8, MEMORY_MB: 1024", "VCPU: 9, DISK_GB: 5")), Watcher(), prune=True
    ).steps
    assert isinstance(step, SetInventories)
    assert step.inventories == {"VCPU": Inventory(9), "DISK_GB": Inventory(5)}
    assert str(step) == "set inventories of numa: +DISK_GB total 5; -MEMORY_MB total 1,024; VCPU total 8 -> 9"
