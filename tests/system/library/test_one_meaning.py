"""A word of the library means what the same word of the command line means: apply, exact, prune, claim."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import stead
from stead import Group, Inventory, Node, Request, testing
from stead.cli.app import run
from stead.domain.provider import Inventory as Stored
from stead.topology.document import dump
from stead.topology.site import Description, site_of

if TYPE_CHECKING:
    from pathlib import Path

    from stead.testing import Placement

CLASSES, TRAITS = ("VCPU", "MEMORY_MB", "CUSTOM_A"), ("HW_NUMA_ROOT", "CUSTOM_B", "CUSTOM_C")
AGGREGATES = tuple(f"5ead0000-0000-4000-8000-00000000000{number}" for number in range(3))


def random_hosts(chance: random.Random) -> list[Node]:
    def node(name: str, children: list[Node]) -> Node:
        return Node(
            name,
            {kind: Inventory(chance.randint(1, 9)) for kind in CLASSES if chance.random() < 0.5},
            traits=[trait for trait in TRAITS if chance.random() < 0.5],
            aggregates=[aggregate for aggregate in AGGREGATES if chance.random() < 0.5],
            children=children,
        )

    hosts = [name for name in ("a", "b", "c") if chance.random() < 0.8]
    return [node(host, [node(f"{host}{child}", []) for child in range(chance.randrange(3))]) for host in hosts]


def as_file(hosts: list[Node]) -> str:
    return dump(site_of(described for host in hosts for described in descriptions(host, None)))


def descriptions(node: Node, parent: str | None) -> list[Description]:
    assert node.inventories is not None
    inventories = {name: Stored(inventory.total) for name, inventory in node.inventories.items()}
    described = Description(
        node.name, None, parent, inventories, node.traits or frozenset(), node.aggregates or frozenset()
    )
    return [described, *(below for child in node.children for below in descriptions(child, node.name))]


def everything(site: stead.Site) -> dict[str, object]:
    return {
        provider.name: (
            {name: inventory.total for name, inventory in (provider.inventories or {}).items()},
            provider.traits,
            provider.aggregates,
        )
        for tree in site.trees()
        for provider in tree
    }


@pytest.mark.parametrize("option", ["", "exact", "prune"])
def test_apply_keeps_and_removes_the_same(option: str, tmp_path: Path) -> None:
    file, chance = tmp_path / "site.yaml", random.Random(option)
    with testing.placement() as by_command, testing.site() as by_library:
        for _ in range(12):
            hosts = random_hosts(chance)
            before = everything(by_library)
            file.write_text(as_file(hosts))
            options = [f"--{option}"] if option else []
            assert run(["--url", by_command, "--token", "admin", "topology", "apply", str(file), *options]) == 0
            by_library.apply(hosts, create_names=True, **({option: True} if option else {}))
            assert everything(by_library) == everything(by_command.site())
            if not option:
                assert_nothing_lost(before, everything(by_library))


def assert_nothing_lost(before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, (inventories, traits, aggregates) in before.items():
        assert inventories.keys() <= after[name][0].keys()
        assert traits <= after[name][1]
        assert aggregates <= after[name][2]


FULL = Node("host", VCPU=4, MEMORY_MB=4, traits=TRAITS[:1], aggregates=AGGREGATES[:1], children=[Node("numa", PCPU=4)])


def in_each_form(node: Node) -> list[Any]:
    """What ``apply`` accepts for one node."""
    return [node, [node], {"providers": node.records()}, {"provider_trees": [{"providers": node.records()}]}]


@pytest.mark.parametrize("form", range(4))
def test_apply_removes_only_what_an_argument_says_whatever_describes_the_site(
    form: int, placement_site: stead.Site
) -> None:
    site, less = placement_site, in_each_form(Node("host", VCPU=5, traits=(), aggregates=()))[form]
    site.apply(FULL)
    site.apply(less)
    assert everything(site) == {
        "host": ({"VCPU": 5, "MEMORY_MB": 4}, {TRAITS[0]}, {AGGREGATES[0]}),
        "numa": ({"PCPU": 4}, set(), set()),
    }
    site.apply(less, exact=True)
    assert everything(site) == {"host": ({"VCPU": 5}, set(), set()), "numa": ({"PCPU": 4}, set(), set())}
    site.apply(FULL)
    site.apply(less, prune=True)
    assert everything(site) == {"host": ({"VCPU": 5}, set(), set())}


def test_apply_heeds_the_options_of_a_whole_body(placement_site: stead.Site) -> None:
    site, body = placement_site, {"provider_trees": [{"providers": Node("host", VCPU=5).records()}]}
    for option, inventories in (
        ({"merge": True}, {"VCPU": 5, "MEMORY_MB": 4}),
        ({"merge": False}, {"VCPU": 5}),
        ({"prune": True}, {"VCPU": 5}),
    ):
        site.apply(FULL)
        site.apply({**body, **option})
        assert everything(site)["host"] == (inventories, {TRAITS[0]}, {AGGREGATES[0]})


def test_a_claim_for_a_name_that_is_taken_is_refused_and_the_same_claim_is_not(
    placement: Placement, capsys: pytest.CaptureFixture[str]
) -> None:
    site = placement.site()
    site.apply([Node("a", VCPU=4), Node("b", VCPU=4)])

    def by_command(amount: int, *arguments: str) -> int:
        owner = ("--project", "test", "--user", "test", "--consumer-name", "job")
        return run(["--url", placement, "--token", "admin", "claim", f"resources=VCPU:{amount}", *owner, *arguments])

    def held() -> list[tuple[Any, ...]]:
        return [(each.generation, each.project, each.type, each.allocations) for each in site.claims()]

    site.claim(Request(Group(VCPU=2)), "job")
    site.claim(Request(Group(VCPU=1)), "job-1")
    before = held()
    for amount, arguments in (
        (3, ()),
        (9, ()),
        (2, ("--type", "OTHER")),
        (2, ("--project", "other")),
        (1, ("--count", "2")),
    ):
        assert by_command(amount, *arguments) == 1
        assert "already; --replace claims instead of that" in capsys.readouterr().err
    for names, amount in ((["job"], 3), (["job"], 9), (["job-0", "job-1"], 1)):
        with pytest.raises(stead.Stale):
            site.claim_all([Request(Group(VCPU=amount))] * len(names), names)
    assert held() == before
    assert by_command(2) == 0  # as the library claimed it
    site.claim(Request(Group(VCPU=2)), "job")
    assert held() == before
    assert by_command(3, "--replace") == by_command(1, "--count", "2", "--replace") == 0
    amounts = {stead.uuid_of("job"): 3, stead.uuid_of("job-0"): 1, stead.uuid_of("job-1"): 1}
    assert {each.consumer: amount_of(each) for each in site.claims()} == amounts


def amount_of(claim: stead.Claim) -> int:
    return sum(amount for amounts in claim.allocations.values() for amount in amounts.values())


def test_nothing_is_created_over_what_has_its_name_or_uuid(
    placement: Placement, capsys: pytest.CaptureFixture[str]
) -> None:
    site = placement.site()
    uuid = site.apply(FULL).uuids["host"]
    before = everything(site)
    for arguments in (("host",), ("other", "--uuid", uuid), ("other", "--uuid", uuid.upper())):
        command = ("provider", "create", *arguments, "--inventory", "VCPU=1")
        assert run(["--url", placement, "--token", "admin", *command]) == 1
        assert "exists" in capsys.readouterr().err
        assert everything(site) == before
