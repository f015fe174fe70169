"""Random sites for property tests."""

from collections.abc import Callable

from hypothesis import strategies as st

from stead.domain.provider import MAX_INT, Inventory
from stead.topology.site import Description, Site, site_of

CLASSES = ["VCPU", "MEMORY_MB", "CUSTOM_LAMP"]
TRAITS = ["HW_NUMA_ROOT", "COMPUTE_NODE", "CUSTOM_BLUE"]
AGGREGATES = ["5ead0000-0000-4000-8000-00000000000a", "5EAD0000000040008000000000000b0b"]

positive = st.integers(1, MAX_INT)
inventories = st.builds(
    Inventory,
    total=positive,
    reserved=st.just(0),
    min_unit=positive,
    max_unit=positive,
    step_size=positive,
    allocation_ratio=st.floats(0, 3e38),
)
plain_names = st.sampled_from([f"provider-{n}" for n in range(8)])
any_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


@st.composite
def sites(draw: Callable[..., object], names: st.SearchStrategy[str] = plain_names) -> Site:
    chosen = draw(st.lists(names, unique=True, max_size=8))
    descriptions = []
    for place, name in enumerate(chosen):
        parent = draw(st.sampled_from([None, *chosen[:place]]))
        descriptions.append(
            Description(
                name=name,
                parent=parent,
                inventories=draw(st.dictionaries(st.sampled_from(CLASSES), inventories)),
                traits=draw(st.frozensets(st.sampled_from(TRAITS))),
                aggregates=draw(st.frozensets(st.sampled_from(AGGREGATES))),
            )
        )
    return site_of(descriptions)
