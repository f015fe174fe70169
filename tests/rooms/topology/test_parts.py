"""A site in parts: each provider in one of them, whole trees together, parents first; and a site as a table."""

import csv
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stead.printing import printable
from stead.topology.document import as_data, dump, load
from stead.topology.site import Description, Site, halves, parts_of, site_of, write_allocations, write_inventories
from tests.rooms.topology.sites import any_names, sites

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine


def top_of(name: str, site: Site) -> str:
    parent = site.providers[name].parent
    return name if parent is None else top_of(parent, site)


@unhurried
@given(sites(), st.integers(1, 9))
def test_parts_have_each_provider_once_and_parents_first(site: Site, most: int):
    parts = parts_of(site, most)
    names = [described.name for part in parts for described in part.providers]
    assert sorted(names) == sorted(site.providers)
    assert all(
        described.parent is None or names.index(described.parent) < names.index(described.name)
        for described in site.providers.values()
    )
    assert all(1 <= len(part.providers) <= most for part in parts)


@unhurried
@given(sites(), st.integers(1, 9))
def test_a_tree_is_in_one_part_unless_it_is_larger_than_a_part(site: Site, most: int):
    parts = parts_of(site, most)
    for top in {top_of(name, site) for name in site.providers}:
        members = {name for name in site.providers if top_of(name, site) == top}
        having = [part for part in parts if members & {described.name for described in part.providers}]
        assert [part.is_whole for part in having] == [len(members) <= most] * len(having)
        assert len(having) == 1 or len(members) > most


@unhurried
@given(sites().filter(lambda site: len(site.providers) > 1))
def test_halves_are_between_trees_if_there_are_several(site: Site):
    (part,) = parts_of(site, 100)
    first, second = halves(part, site)
    assert [*first.providers, *second.providers] == list(part.providers)
    assert first.providers
    assert second.providers
    tops = [{top_of(described.name, site) for described in half.providers} for half in (first, second)]
    is_one_tree = len({top_of(name, site) for name in site.providers}) == 1
    assert (tops[0] & tops[1] != set()) == is_one_tree == (not first.is_whole)


@unhurried
@given(sites(any_names))
def test_a_table_has_a_row_for_each_inventory_and_each_bare_provider(site: Site):
    file = io.StringIO(newline="")
    write_inventories(site, file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue(), newline="")))

    def cell(name: str) -> str:
        return f"'{printable(name)}" if name[0] in "=+-@" else printable(name)

    expected = {
        (cell(described.name), resource_class, str(inventory.total))
        for described in site.providers.values()
        for resource_class, inventory in described.inventories.items()
    } | {(cell(described.name), "", "") for described in site.providers.values() if not described.inventories}
    assert {(row["name"], row["resource_class"], row["total"]) for row in rows} == expected
    assert len(rows) == len(expected)


def test_a_table_of_allocations_has_a_row_for_each_amount():
    file = io.StringIO()
    write_allocations([(("c", "p", "u", "INSTANCE"), {"host": {"VCPU": 2, "DISK_GB": 5}})], file)
    assert file.getvalue().splitlines()[1:] == ["c,p,u,INSTANCE,host,DISK_GB,5", "c,p,u,INSTANCE,host,VCPU,2"]


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=cmd|' /C calc'!A0"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_is_a_formula(text: str):
    file = io.StringIO(newline="")
    write_allocations([((text, text, text, text), {text: {"VCPU": 2}})], file)
    write_inventories(load(dump(site_of([Description(text), Description("b", parent=text)]))), file)
    for row in csv.reader(io.StringIO(file.getvalue(), newline="")):
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for cell in row), row


def test_consumers_of_a_dump_are_passed_over_when_it_is_read():
    site = load("providers: [{name: host}]")
    consumers = [{"uuid": "c", "allocations": {"host": {"VCPU": 2}}}]
    assert load(dump(site, consumers)) == site
    assert as_data(site, consumers)["consumers"] == consumers
