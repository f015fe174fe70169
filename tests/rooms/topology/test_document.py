import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stead.domain.provider import Inventory
from stead.topology.document import dump, load
from stead.topology.site import Description, Site, SiteError, site_of
from tests.rooms.topology.sites import any_names, sites

EXAMPLE = """\
---
providers:
- name: host
  uuid: 5ead0000-0000-4000-8000-000000000002
  traits:
  - COMPUTE_NODE
  - CUSTOM_BLUE
  aggregates:
  - 5ead0000-0000-4000-8000-00000000000a
  children:
  - name: host_NUMA0
    inventories:
      MEMORY_MB:
        total: 1024
        reserved: 512
        allocation_ratio: 1.5
      VCPU: 8
- name: lonely
  parent: somewhere else
"""


def one_provider(text: str) -> str:
    return f"providers:\n- name: host\n{text}"


def test_a_file_in_the_written_form_comes_back_byte_for_byte():
    assert dump(load(EXAMPLE)) == EXAMPLE


def test_children_find_their_parent_by_nesting_or_by_name():
    nested = load("providers: [{name: a, children: [{name: b, children: [{name: c}]}]}]")
    named = load("providers: [{name: c, parent: b}, {name: b, parent: a}, {name: a}]")
    assert nested == named


def test_documents_of_one_file_are_one_site():
    assert set(load(EXAMPLE + "---\nproviders: [{name: x}]\n---\n").providers) == {"host", "host_NUMA0", "lonely", "x"}


def test_an_inventory_may_be_just_its_total():
    assert load(one_provider("  inventories: {VCPU: 8}")) == load(one_provider("  inventories: {VCPU: {total: 8}}"))


def test_aliases_stand_for_what_they_name():
    site = load("providers: [{name: a, traits: &t [CUSTOM_X]}, {name: b, traits: *t}]")
    assert site.providers["b"].traits == {"CUSTOM_X"}


def test_an_empty_file_describes_nothing():
    assert load("# nothing yet\n") == load("providers: []") == load("providers:") == site_of([])


def test_trees_deeper_than_people_read_are_written_by_name():
    deep = site_of([Description(f"p{n:04}", parent=f"p{n - 1:04}" if n else None) for n in range(500)])
    assert load(dump(deep)) == deep


@given(sites(any_names))
def test_what_is_written_is_read_again(site: Site):
    text = dump(site)
    assert load(text) == site
    assert dump(load(text)) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("providers: [{}]", "f:1: a provider has no name"),
        ("providers:\n- name: 12", "f:2: name must be text, not 12; put it in quotes"),
        ("providers:\n- name: ''", "a name has 1 to 200 characters, not 0"),
        (f"providers:\n- name: {'x' * 201}", "a name has 1 to 200 characters, not 201"),
        ("providers: {name: x}", "f:1: providers must be a list, not a mapping"),
        ("provider: []", "unknown field 'provider'; known are providers"),
        ("- name: x", "the file must be a mapping, not a list"),
        (one_provider("  uid: x"), "f:3: a provider: unknown field 'uid'"),
        (one_provider("  uuid: x"), "f:3: provider 'host': uuid: 'x' is not a uuid"),
        (one_provider("  traits: [lower]"), "provider 'host': traits: 'lower' is not a name of A-Z"),
        (one_provider("  traits: [A, A]"), "traits: 'A' is given twice"),
        (one_provider(f"  traits: [{'A' * 256}]"), "is not a name of A-Z"),
        (one_provider("  aggregates: [x]"), "aggregates: uuid: 'x' is not a uuid"),
        (one_provider("  inventories: [VCPU]"), "inventories must be a mapping of resource classes"),
        (one_provider("  inventories: {vcpu: 1}"), "inventories: 'vcpu' is not a name of A-Z"),
        (one_provider("  inventories:\n    VCPU: 1\n    VCPU: 2"), "f:5: 'VCPU' is given twice"),
        (one_provider("  inventories: {VCPU: 0}"), "VCPU must be 1 to 2147483647, not 0"),
        (one_provider("  inventories: {VCPU: 2147483648}"), "VCPU must be 1 to 2147483647, not 2147483648"),
        (one_provider("  inventories: {VCPU: 1.5}"), "VCPU must be a whole number, not 1.5"),
        (one_provider("  inventories: {VCPU: true}"), "VCPU must be a whole number, not True"),
        (one_provider("  inventories: {VCPU: 1:30}"), "VCPU must be a whole number, not '1:30'"),
        (one_provider("  inventories: {VCPU: {reserved: 1}}"), "VCPU: total is missing"),
        (one_provider("  inventories: {VCPU: {total: 1, totl: 1}}"), "VCPU: unknown field 'totl'"),
        (one_provider("  inventories: {VCPU: {total: 1, reserved: 2}}"), "VCPU: the capacity,"),
        (one_provider("  inventories: {VCPU: {total: 1, allocation_ratio: .nan}}"), "allocation_ratio must be at most"),
        (
            one_provider("  inventories: {VCPU: {total: 1, allocation_ratio: 4.0e+38}}"),
            "allocation_ratio must be at most",
        ),
        (one_provider("  children: [{name: host}]"), "provider 'host' is described twice; first in line 2"),
        (one_provider("  children: [{name: x, parent: y}]"), "already a child of 'host'"),
        ("providers: [{name: a, parent: a}]", "'a' is, or is below, an ancestor of itself"),
        ("providers: [{name: a, parent: b}, {name: b, parent: a}]", "is, or is below, an ancestor of itself"),
        ("providers: [", "f:2: not YAML"),
        ("\x00", "f: not YAML"),
        ("providers: !!python/object:os.system []", "the tag"),
        ("providers: *p", "no anchor &p"),
        ("providers: &p [*p]", "no anchor &p"),
        (f"providers: {'[' * 100_000}", "nested more than 200 levels deep"),
        (one_provider(f"  inventories: {{VCPU: {'9' * 5000}}}"), "cannot be read as a number"),
        (one_provider(f"  inventories: {{VCPU: 0x{'f' * 5000}}}"), "cannot be read as a number"),
        (one_provider(f"  inventories: {{VCPU: 0b{'1' * 50_000}}}"), "cannot be read as a number"),
        (one_provider(f"  inventories: {{VCPU: 0{'7' * 5000}}}"), "cannot be read as a number"),
        (one_provider(f"  inventories: {{VCPU: 1{'_0' * 5000}}}"), "cannot be read as a number"),
        (one_provider(f"  inventories: {{VCPU: -0x{'f' * 5000}}}"), "cannot be read as a number"),
        (one_provider(f"  inventories: {{VCPU: {'9' * 5000}.5}}"), "VCPU must be a whole number, not inf"),
        (one_provider(f"  traits: [0x{'f' * 5000}]"), "cannot be read as a number"),
    ],
    ids=lambda value: value if value.isascii() and value.isprintable() and len(value) < 60 else "",
)
def test_a_file_that_cannot_be_used_says_where_and_why(text: str, complaint: str):
    with pytest.raises(SiteError) as refused:
        load(text, "f")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("loader", ["C", "Python"])
@pytest.mark.parametrize("opening", ["[", "{", "[{", "- ", "? ", "[? "])
@pytest.mark.parametrize("levels", [201, 999, 1001, 100_000])
def test_too_deep_a_file_gets_our_message_whichever_library_notices_first(
    monkeypatch, loader: str, opening: str, levels: int
):
    if loader == "Python":
        monkeypatch.setattr("stead.topology.document._LOADER", yaml.SafeLoader)
    with pytest.raises(SiteError) as refused:
        load("\n" + opening * levels, "f")
    assert str(refused.value) == "f:2: nested more than 200 levels deep"


def test_brackets_in_quotes_are_no_levels():
    with pytest.raises(SiteError, match="not YAML"):
        load("providers: ['" + "[" * 300 + "', @]", "f")


def test_two_providers_cannot_have_one_uuid():
    uuid = "5ead0000-0000-4000-8000-000000000002"
    with pytest.raises(SiteError, match="have the same uuid"):
        load(f"providers: [{{name: a, uuid: {uuid}}}, {{name: b, uuid: {uuid.upper()}}}]")


def test_aliases_that_multiply_are_refused_before_anybody_walks_them():
    lines = ["providers:", "- name: a", "  traits: &x0 [A, B, C, D, E, F, G, H, I, J]"]
    lines += [f"- &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(SiteError, match="aliases stand for more than"):
        load("\n".join(lines))


@given(st.text(st.sampled_from("[]{}:-,&*!|>'\"#%@ \n\tabA1.~0xf_e+")))
def test_no_text_ends_in_anything_but_a_site_or_a_complaint(text: str):
    try:
        site = load(text)
    except SiteError:
        return
    assert load(dump(site)) == site


def test_defaults_are_left_out_and_other_values_are_not():
    site = site_of([Description("a", inventories={"VCPU": Inventory(4, max_unit=2), "DISK_GB": Inventory(7)})])
    assert dump(site).split("inventories:\n")[1] == "    DISK_GB: 7\n    VCPU:\n      total: 4\n      max_unit: 2\n"
