"""Sites: the same in every run, and each the beginning of the next larger one."""

from itertools import islice

import pytest

from stead.topology.site import SiteError
from stead_bench.sites import KINDS, PREFIX, Site, roomy
from tests.checkout import ROOT

SAMPLES = ROOT / "samples" / "site"


def site(kind: str, size: int, **more: object) -> Site:
    return Site(kind, size, folder=SAMPLES, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_every_run_makes_the_same(kind):
    assert list(site(kind, 7).descriptions()) == list(site(kind, 7).descriptions())


@pytest.mark.parametrize("kind", KINDS)
def test_a_site_is_the_beginning_of_a_larger_one(kind):
    small, large = list(site(kind, 3).descriptions()), site(kind, 250).descriptions()
    assert list(islice(large, len(small))) == small


@pytest.mark.parametrize("kind", KINDS)
def test_parents_come_first_and_all_have_names_of_their_own(kind):
    names, uuids = set(), set()
    for described in site(kind, 120).descriptions():
        assert described.parent is None or described.parent in names
        assert described.name.startswith(PREFIX)
        names.add(described.name)
        uuids.add(described.uuid)
    assert len(names) == len(uuids)
    assert None not in uuids


@pytest.mark.parametrize(("kind", "providers"), [("flat", 10), ("nested", 70), ("numa", 150), ("wide", 11)])
def test_the_size_is_what_it_says(kind, providers):
    assert sum(1 for _ in site(kind, 10).descriptions()) == providers


def test_hosts_have_as_many_traits_as_asked_for_and_share_two_thirds():
    had = [described.traits for described in site("flat", 200, traits=90).descriptions()]
    assert {len(traits) for traits in had} == {90}
    assert frozenset.intersection(*had) == set(site("flat", 200, traits=90).common_traits())
    assert len(frozenset.intersection(*had)) == 60


def test_another_seed_gives_other_traits_to_other_providers():
    first, second = list(site("flat", 5).descriptions()), list(site("flat", 5, seed=2).descriptions())
    assert [described.traits for described in first] != [described.traits for described in second]
    assert {described.uuid for described in first}.isdisjoint(described.uuid for described in second)


@pytest.mark.parametrize("kind", KINDS)
def test_every_site_has_room_for_the_claims_in_between(kind):
    assert roomy(site(kind, 3))


def test_machines_without_a_folder_are_refused(tmp_path):
    for folder in (None, tmp_path):
        with pytest.raises(SiteError, match="no hwloc XML files"):
            list(Site("machines", 1, folder=folder).descriptions())
