"""nova's provider.yaml: what it adds to a provider, what it removes later, and what is refused, with its line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.domain.provider import Inventory
from stead.topology.provider_config import CLASS_MARK, TRAIT_MARK, Addition, load_additions, settle
from stead.topology.site import Description, SiteError

FILE = """\
meta:
  schema_version: '1.0'
providers:
  - identification:
      uuid: $COMPUTE_NODE
    inventories:
      additional:
        - CUSTOM_LICENSE:
            total: 22
            reserved: 2
            min_unit: 1
            max_unit: 10
            step_size: 1
            allocation_ratio: 2.0
        - CUSTOM_SLOT: {total: 1}
    traits:
      additional:
        - CUSTOM_FAST
  - identification: {name: CARD}
  - identification: {uuid: 5EAD0000-0000-4000-8000-000000000001}
    traits:
"""


def test_a_file_adds_to_the_host_and_to_providers_by_name_and_uuid():
    host, card, third = load_additions(FILE, "f")
    assert (host.place, host.provider, host.is_name) == ("f:4", "$COMPUTE_NODE", False)
    assert host.inventories == {
        "CUSTOM_LICENSE": Inventory(22, 2, 1, 10, 1, 2.0),
        "CUSTOM_SLOT": Inventory(1),
    }
    assert host.traits == {"CUSTOM_FAST"}
    assert (card.place, card.provider, card.is_name, card.traits) == ("f:19", "CARD", True, frozenset())
    assert (third.provider, third.is_name) == ("5ead0000-0000-4000-8000-000000000001", False)


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        (FILE, "", "f: empty file. A file without providers is `meta: {schema_version: '1.0'}`."),
        (FILE, "[]", "f:1: the file must be a mapping, not a list"),
        (FILE, FILE + "---\nmeta: {}\n", "f:23: a second YAML document"),
        (FILE, "providers: []", "f:1: meta is missing"),
        ("'1.0'", "1.0", "f:2: meta: schema_version must be text, not 1.0; put it in quotes"),
        ("'1.0'", "'2.0'", "f:2: meta: unknown schema_version '2.0'; known are '1.0' to '1.x'"),
        ("schema_version", "version", "f:2: meta: unknown field 'version'; known are schema_version"),
        ("meta:\n  schema_version: '1.0'", "meta: {}", "f:1: meta: schema_version is missing"),
        ("traits:\n      additional", "trait:\n      additional", "f:17: a provider: unknown field 'trait'"),
        ("$COMPUTE_NODE", "$COMPUTE", "f:5: identification: uuid: '$COMPUTE' is neither a uuid nor $COMPUTE_NODE"),
        ("{name: CARD}", "{}", "f:19: identification must have either uuid"),
        ("{name: CARD}", "{name: a, uuid: b}", "f:19: identification must have either uuid"),
        ("{name: CARD}", "{name: 5}", "f:19: name must be text, not 5; put it in quotes"),
        ("{name: CARD}", "{uuid: $COMPUTE_NODE}", "f:19: provider '$COMPUTE_NODE' is described twice; first in line 4"),
        ("identification: {name: CARD}", "traits: {}", "f:19: a provider has no identification"),
        ("CUSTOM_SLOT:", "VCPU:", "f:15: provider '$COMPUTE_NODE': inventories: 'VCPU' does not begin with CUSTOM_"),
        ("CUSTOM_SLOT:", "CUSTOM_LICENSE:", "f:15: provider '$COMPUTE_NODE': inventories: 'CUSTOM_LICENSE' is given"),
        ("{total: 1}", "1", "f:15: provider '$COMPUTE_NODE': inventories: CUSTOM_SLOT must be a mapping with total"),
        ("{total: 1}", "{min_unit: 1}", "f:15: provider '$COMPUTE_NODE': inventories: CUSTOM_SLOT: total is missing"),
        (
            "reserved: 2",
            "reserved: -2",
            "f:10: provider '$COMPUTE_NODE': inventories: CUSTOM_LICENSE: reserved must be",
        ),
        ("- CUSTOM_SLOT: {total: 1}", "- CUSTOM_SLOT", "f:15: provider '$COMPUTE_NODE': inventories: expected a"),
        ("- CUSTOM_FAST", "- HW_CPU_X86_AVX", "f:18: provider '$COMPUTE_NODE': traits: 'HW_CPU_X86_AVX' does not"),
        ("- CUSTOM_FAST", "- CUSTOM_fast", "f:18: provider '$COMPUTE_NODE': traits: 'CUSTOM_fast' does not"),
        ("- CUSTOM_FAST", f"- CUSTOM_{'A' * 229}", "f:18: provider '$COMPUTE_NODE': traits: CUSTOM_AAAAAAA"),
        (
            "- CUSTOM_FAST",
            f"- {TRAIT_MARK}FAST",
            f"f:18: provider '$COMPUTE_NODE': traits: {TRAIT_MARK}FAST is a trait",
        ),
        ("- CUSTOM_FAST", "CUSTOM_FAST", "f:18: provider '$COMPUTE_NODE': traits: additional must be a list"),
        ("- CUSTOM_FAST", "- 5", "f:18: provider '$COMPUTE_NODE': traits must be text, not 5"),
        ("- CUSTOM_FAST", "- [", "not YAML"),
    ],
)
def test_what_is_no_such_file_is_refused_with_the_line(before: str, after: str, complaint: str):
    assert before in FILE
    with pytest.raises(SiteError) as refused:
        load_additions(FILE.replace(before, after, 1), "f")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_longest_names_have_marks():
    name = f"CUSTOM_{'A' * 228}"
    added = Addition("f:1", "p", True, {name: Inventory(1)}, frozenset({name}))
    settled, _ = settle(Description("p"), {}, added)
    assert max(map(len, settled.traits)) == 255


NAMES = ["CUSTOM_A", "CUSTOM_B", "CUSTOM_CLASS_A", "CUSTOM_TRAIT_A"]
OWN = ["VCPU", "CUSTOM_OWN"]
AMOUNTS = st.builds(Inventory, st.integers(1, 3))
ADDITIONS = st.none() | st.builds(
    lambda inventories, traits: Addition("f:1", "p", True, inventories, traits),
    st.dictionaries(st.sampled_from(NAMES), AMOUNTS),
    st.frozensets(st.sampled_from(NAMES)),
)


@given(
    st.dictionaries(st.sampled_from(OWN), AMOUNTS),
    st.frozensets(st.sampled_from(["HW_NUMA_ROOT", "CUSTOM_MINE"])),
    st.lists(st.tuples(ADDITIONS, st.sets(st.sampled_from(NAMES))), min_size=1, max_size=6),
)
@settings(max_examples=100)
def test_after_any_files_a_provider_has_its_own_and_what_the_last_file_adds_and_what_is_in_use(own, traits, files):
    provider = Description("p", inventories=own, traits=traits)
    for added, used in files:
        had = provider
        provider, kept = settle(had, dict.fromkeys(used & had.inventories.keys(), 1), added)
        adds = {} if added is None else dict(added.inventories)
        in_use = {name: had.inventories[name] for name in used & had.inventories.keys() - adds.keys()}
        assert provider.inventories == {**own, **in_use, **adds}
        assert sorted(str(each.resource_class) for each in kept) == sorted(in_use)
        unmarked = {trait for trait in provider.traits if not trait.startswith((CLASS_MARK, TRAIT_MARK))}
        assert unmarked == traits | (frozenset() if added is None else added.traits)
        assert settle(provider, dict.fromkeys(in_use, 1), added) == (provider, kept)  # again, without a change
    assert settle(provider, {}, None)[0] == Description("p", inventories=own, traits=traits)
