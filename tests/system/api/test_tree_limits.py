"""Documents of provider trees that are over a limit change nothing, and the commands send them in smaller parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stead import application
from stead.cli import topology
from stead.cli.sites import Manner
from stead.client.errors import TooLarge
from stead.config import load
from stead.domain.provider import Inventory
from stead.topology.site import Description, Site, site_of
from tests.conftest import write_configuration
from tests.system.api.client import NEWEST, Api, wsgi_door
from tests.system.api.test_sites_as_documents import EVERYTHING, apply, commands_of, read, without_uuids

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.one_database

PATH = "/provider_trees"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Api]:
    """A service that takes three providers and 4,000 bytes in one document."""
    file = write_configuration(tmp_path, f"sqlite:///{tmp_path}/stead.db")
    with file.open("a") as more:
        more.write("[stead]\nmax_tree_providers = 3\nmax_body_size = 4000\n")
    settings = load([file])
    service = application.build_service(settings)
    yield Api(wsgi_door(application.assemble(service, settings))).at(f"{NEWEST}, stead 1.1")
    service.close()


def test_a_document_over_a_limit_is_refused_and_changes_nothing(small: Api) -> None:
    before = small.get(PATH).header("etag")
    providers = [{"name": f"host-{number}"} for number in range(4)]
    in_one_tree = small.put(PATH, provider_trees=[{"providers": providers}])
    assert in_one_tree.refused(413, "4 providers; at most 3", "provider_trees[0].providers[3].")
    parted = [{"providers": providers[:2]}, {"providers": []}, {"providers": providers[2:]}]
    assert small.put(PATH, provider_trees=parted).refused(
        413, "4 providers; at most 3", "provider_trees[2].providers[1]."
    )
    body = b'{"provider_trees": [{"providers": [{"name": "host-0"}]}]}'
    assert small.call("PUT", PATH, raw=body.ljust(4001)).refused(413, "more than 4000 bytes")
    assert small.get(PATH).header("etag") == before
    small.call("PUT", PATH, raw=body.ljust(4000)).expect(200)


def rack(number: int, total: int) -> list[Description]:
    name = f"rack-{number}"
    nodes = [Description(f"{name}-{node}", None, name, {"VCPU": Inventory(total)}) for node in range(2)]
    return [Description(name), *nodes]


def site_from(*racks: int, total: int = 8) -> Site:
    return site_of(described for number in racks for described in rack(number, total))


@pytest.mark.parametrize("manner", [EVERYTHING, Manner(prune=True)], ids=["all", "trees"])
def test_a_site_is_sent_in_halves_until_the_server_takes_them(small: Api, manner: Manner) -> None:
    commands = commands_of(small)
    first = site_of([*site_from(1, 2, 3).providers.values(), Description("rack-1-old", parent="rack-1")])
    apply(commands, first, Manner(exact=True), 2)
    second = site_from(1, 2, 4, 5, total=16)
    apply(commands, second, manner)
    others = {} if manner is EVERYTHING else without_uuids(site_from(3))
    assert without_uuids(read(commands)) == without_uuids(second) | others


def test_a_tree_that_is_too_large_for_one_request_is_written_in_parts_but_not_pruned(small: Api) -> None:
    commands = commands_of(small)
    large = site_of([*rack(1, 8), Description("rack-1-2", parent="rack-1")])
    apply(commands, large, Manner(exact=True))
    assert without_uuids(read(commands)) == without_uuids(large)
    with pytest.raises(TooLarge, match="the tree of rack-1 is too large to be pruned in one request"):
        apply(commands, large, Manner(prune=True))


@pytest.mark.parametrize(("size", "says"), [(6, False), (3, True)], ids=["one part", "two parts"])
def test_a_dry_run_of_several_parts_says_what_each_is_compared_with(
    empty_api: Api, size: int, says: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = apply(commands_of(empty_api), site_from(1, 2), Manner(dry_run=True), size)
    topology._report(outcome, 6, dry_run=True)
    assert ("2 parts, each compared with the site as it is now" in capsys.readouterr().out) == says
