"""Small random forests, and random requests that fit them often enough to be interesting.

Few names of everything, small numbers: coincidences (two providers alike, an amount that just fits) are what breaks a
clever search. A request is made around a home, one tree and what it shares, and around a witness for each group, from
which most of its conditions are taken; now and then a condition comes from elsewhere. Everything shrinks towards one
bare provider and one group that asks for 1. Choices are single draws from short tables: Hypothesis is fast with those.
"""

from __future__ import annotations

import itertools
import string
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from hypothesis import strategies as st

from stead.domain.request import UNSUFFIXED, Apart, CandidateRequest, ProviderQuery, RequestGroup, Terms
from tests.rooms.candidates.brute_force import SHARES, anchors_of
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider, uuid_of

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

CLASSES = ("VCPU", "MEMORY_MB", "CUSTOM_DISK")
TRAITS = ("CUSTOM_RED", "CUSTOM_BLUE", "CUSTOM_OLD")
AGGREGATES = ("a", "b", "c")
SUFFIXES = (
    ("",),
    ("1",),
    ("", "1"),
    ("1", "_A"),
    ("1", ""),
    ("1", "", "_A"),
    ("_A", "2", "1"),
    ("2", "1", "_A"),
    ("1", "_A", "", "2"),
)

NOBODY_HAS_CLASS = "DISK_GB"
NOBODY_HAS_TRAIT = "HW_CPU_X86_AVX2"
UNKNOWN_CLASS = "CUSTOM_NO_CLASS"
UNKNOWN_TRAIT = "CUSTOM_NO_TRAIT"
UNKNOWN_UUID = uuid_of("nothing has this uuid")

MAX_PROVIDERS = 10
MAX_ROOTS = 4
HUGE = (2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 + 1, 10**40)
"""Amounts that no small number holds."""

MOST_SPLIT = 30
"""Brute force counts up to what may be split."""

PLAIN_INVENTORIES = tuple(PlainInventory(total, used=used) for total, used in ((1, 0), (2, 0), (4, 1), (6, 2), (9, 0)))

ODD_INVENTORIES = (
    PlainInventory(1, used=1),
    PlainInventory(4, used=7),
    PlainInventory(7, reserved=7),
    PlainInventory(4, reserved=1),
    PlainInventory(9, step_size=2),
    PlainInventory(9, min_unit=2, max_unit=4, step_size=2),
    PlainInventory(9, min_unit=3, step_size=2),  # the least amount is 4
    PlainInventory(12, min_unit=2, max_unit=7, step_size=3),
    PlainInventory(9, min_unit=3, max_unit=3),
    PlainInventory(9, max_unit=2),
    PlainInventory(9, max_unit=1, used=3),
    PlainInventory(2, allocation_ratio=2.0, used=3),
    PlainInventory(4, allocation_ratio=0.5),
    PlainInventory(10, reserved=1, allocation_ratio=1.1, used=6),
    PlainInventory(100, allocation_ratio=0.29, used=26),
    PlainInventory(2147483647, max_unit=4, used=2147483645),
    PlainInventory(2147483647, allocation_ratio=1e10, used=2**62),
    PlainInventory(2147483647, allocation_ratio=3.40282e38),
)

INVENTORIES = (*[None] * len(ODD_INVENTORIES), *(PLAIN_INVENTORIES * 6), *ODD_INVENTORIES)


def subsets(names: Sequence[str], most: int) -> tuple[frozenset[str], ...]:
    """All subsets with at most *most* members, small ones first."""
    sizes = range(most + 1)
    return tuple(frozenset(chosen) for size in sizes for chosen in itertools.combinations(names, size))


TRAIT_SETS = subsets(TRAITS, 2)
AGGREGATE_SETS = subsets(AGGREGATES, 2)


@cache
def below(number: int) -> st.SearchStrategy[int]:
    return st.integers(0, number - 1)


def pick(draw: st.DrawFn, options: Sequence[T]) -> T:
    """One of *options*; shrinks towards the first."""
    return options[draw(below(len(options)))]


def once_in(draw: st.DrawFn, number: int) -> bool:
    """True once in *number* draws; shrinks to False."""
    return draw(below(number)) == number // 2 + 1 if number > 2 else draw(below(2)) == 1


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    """One to four trees of up to ten providers in all; some providers share, most trees overlap in aggregates."""
    providers: list[PlainProvider] = []
    for name in string.ascii_lowercase[: draw(st.integers(1, MAX_PROVIDERS))]:
        providers += [provider(draw, name, providers)]
    return Forest(
        tuple(providers),
        classes=frozenset({*CLASSES, NOBODY_HAS_CLASS}),
        traits=frozenset({*TRAITS, SHARES, NOBODY_HAS_TRAIT}),
    )


def provider(draw: st.DrawFn, name: str, others: Sequence[PlainProvider]) -> PlainProvider:
    parents: list[str | None] = [other.name for other in others]
    roots = sum(other.parent is None for other in others)
    if roots < MAX_ROOTS:
        parents = [*itertools.repeat(None, max(1, len(parents) // 2)), *parents]
    parent = pick(draw, parents)
    traits = pick(draw, TRAIT_SETS) | ({SHARES} if once_in(draw, 5) else frozenset())
    held = {resource_class: pick(draw, INVENTORIES) for resource_class in CLASSES}
    inventories = {resource_class: inventory for resource_class, inventory in held.items() if inventory is not None}
    aggregates, is_disabled = pick(draw, AGGREGATE_SETS), once_in(draw, 16)
    return PlainProvider(name, parent, inventories, traits, aggregates, is_disabled)


@st.composite
def requests(draw: st.DrawFn, forest: Forest) -> CandidateRequest:
    """A request that the edge would let through: every resourceless group is in a ``same_subtree``."""
    root = pick(draw, forest.roots)
    home = providers_under(forest, root)
    suffixes = pick(draw, SUFFIXES)
    bare = {suffix for suffix in suffixes[1:] if suffix != UNSUFFIXED and once_in(draw, 5)}
    groups = tuple(
        unsuffixed(draw, forest, home) if suffix == UNSUFFIXED else suffixed(draw, forest, home, suffix, suffix in bare)
        for suffix in suffixes
    )
    return CandidateRequest(
        groups=groups,
        isolate=once_in(draw, 3),
        same_subtree=same_subtrees(draw, [suffix for suffix in suffixes if suffix != UNSUFFIXED], bare),
        root_traits=trait_terms(draw, root.traits) if once_in(draw, 6) else Terms(),
        one_provider_per_tree=once_in(draw, 6),
    )


@st.composite
def requests_beyond(draw: st.DrawFn, forest: Forest) -> CandidateRequest:
    """A request of before with some of what Stead has of its own: the edge would let it through."""
    request = draw(requests(forest))
    suffixes = [group.suffix for group in request.groups if group.suffix != UNSUFFIXED]
    root = pick(draw, forest.roots)
    apart: list[Apart] = []
    for _ in range(pick(draw, (0, 0, 1, 1, 2)) if len(suffixes) > 1 else 0):
        turn = draw(st.permutations(suffixes))
        number = 1 + draw(below(len(turn) - 1))
        apart.append(Apart(frozenset(turn[:number]), frozenset(turn[number : number + 1 + draw(below(2))])))
    isolated = frozenset(pick(draw, suffixes) for _ in range(1 + draw(below(2)))) if suffixes else frozenset()
    return replace(
        request,
        groups=tuple(group_beyond(draw, forest, group) for group in request.groups),
        isolate=request.isolate and once_in(draw, 3),
        isolated=isolated if not request.isolate and once_in(draw, 2) else frozenset(),
        apart=tuple(apart),
        root_aggregates=aggregate_terms(draw, root.aggregate_uuids) if once_in(draw, 6) else Terms(),
        one_provider_per_tree=False,
    )


def group_beyond(draw: st.DrawFn, forest: Forest, group: RequestGroup) -> RequestGroup:
    """*group*, perhaps in a subtree; of the unsuffixed group more is asked now and then, and most may be split."""
    group = replace(group, like_any_other=True, in_subtree=subtree(draw, forest))
    if group.suffix != UNSUFFIXED:
        return group
    amounts = dict(group.resources)
    for name in amounts:
        if once_in(draw, 2) and amounts[name] < MOST_SPLIT:
            amounts[name] += pick(draw, (1, 2, 3, 5, 8))
    can_split = frozenset(name for name, amount in amounts.items() if amount <= MOST_SPLIT and not once_in(draw, 4))
    return replace(group, resources=amounts, can_split=can_split)


def subtree(draw: st.DrawFn, forest: Forest) -> str | None:
    return pick(draw, [*forest.by_uuid, UNKNOWN_UUID]) if once_in(draw, 10) else None


def providers_under(forest: Forest, anchor: PlainProvider) -> list[PlainProvider]:
    """Providers of the anchor's tree, then those that share with it; those with inventory if any has."""
    found = [provider for provider in forest.providers if anchor.name in anchors_of(forest, provider)]
    found.sort(key=lambda provider: forest.root(provider.name) != anchor.name)
    return [provider for provider in found if provider.inventories] or found


def suffixed(
    draw: st.DrawFn, forest: Forest, home: Sequence[PlainProvider], suffix: str, resourceless: bool
) -> RequestGroup:
    witness = pick(draw, home)
    if resourceless:
        witness = pick(draw, [provider for provider in forest.providers if provider.traits] or forest.providers)
    classes = list(witness.inventories)[: 1 + once_in(draw, 3)] or [pick(draw, CLASSES)]
    asked = {} if resourceless else {name: amount_of(draw, witness.inventories.get(name)) for name in classes}
    return RequestGroup(
        suffix,
        asked | unusual_class(draw) if asked else {},
        traits=trait_terms(draw, witness.traits) if resourceless or once_in(draw, 4) else Terms(),
        aggregates=aggregate_terms(draw, witness.aggregate_uuids) if once_in(draw, 6) else Terms(),
        in_tree=tree(draw, forest, witness),
    )


def unsuffixed(draw: st.DrawFn, forest: Forest, home: Sequence[PlainProvider]) -> RequestGroup:
    """Each class has a witness of its own; required traits are from any of them."""
    witnesses = [pick(draw, home) for _ in range(1 + draw(below(3)))]
    pairs = [(witness, pick(draw, list(witness.inventories) or CLASSES)) for witness in witnesses]
    asked = {name: amount_of(draw, witness.inventories.get(name)) for witness, name in pairs}
    traits = frozenset().union(*(witness.traits for witness in witnesses))
    member = pick(draw, [*witnesses, forest.by_name[forest.root(witnesses[0].name)]])
    return RequestGroup(
        UNSUFFIXED,
        asked | unusual_class(draw),
        traits=trait_terms(draw, traits) if once_in(draw, 4) else Terms(),
        aggregates=aggregate_terms(draw, member.aggregate_uuids) if once_in(draw, 6) else Terms(),
        in_tree=tree(draw, forest, witnesses[0]),
    )


def unusual_class(draw: st.DrawFn, once_in_so_many: int = 30) -> dict[str, int]:
    return {pick(draw, (NOBODY_HAS_CLASS, UNKNOWN_CLASS)): 1} if once_in(draw, once_in_so_many) else {}


def amount_of(draw: st.DrawFn, held: PlainInventory | None) -> int:
    """Mostly little that fits *held*, often exactly what is left, or one more; hardly ever absurd."""
    if held is None or once_in(draw, 60):
        return pick(draw, (1, *HUGE))
    left = held.capacity - held.used
    least = max(held.min_unit, held.step_size)
    return max(1, pick(draw, (least, least, 1, min(2, left), min(left, held.max_unit), left // 2, 2 * least, left + 1)))


def trait_terms(draw: st.DrawFn, had: frozenset[str]) -> Terms:
    return terms(draw, sorted(had & set(TRAITS)), [*TRAITS, NOBODY_HAS_TRAIT, UNKNOWN_TRAIT])


def aggregate_terms(draw: st.DrawFn, had: frozenset[str]) -> Terms:
    return terms(draw, sorted(had), [*map(uuid_of, AGGREGATES), UNKNOWN_UUID])


def terms(draw: st.DrawFn, had: Sequence[str], every: Sequence[str]) -> Terms:
    """One or two clauses, mostly with one of *had* in each, or a forbidden name, mostly not one of *had*."""
    others = [name for name in every if name not in had][: 1 if not once_in(draw, 8) else None]
    kind = pick(draw, ("one", "one", "any of", "two", "forbidden", "both"))
    if kind == "forbidden" or not had:
        return Terms((), frozenset({pick(draw, others or every)}))
    first = frozenset({pick(draw, had), *([pick(draw, others or every)] if kind == "any of" else [])})
    clauses = (first, frozenset({pick(draw, [*had, *others])})) if kind == "two" else (first,)
    return Terms(clauses, frozenset({pick(draw, others or every)} if kind == "both" else ()))


def tree(draw: st.DrawFn, forest: Forest, witness: PlainProvider) -> str | None:
    """Hardly ever a tree; then mostly the one of *witness*, named by any of its providers."""
    if not once_in(draw, 8):
        return None
    same = [other.uuid for other in forest.providers if forest.root(other.name) == forest.root(witness.name)]
    return pick(draw, [*same, *same, *same, UNKNOWN_UUID, *forest.by_uuid])


def same_subtrees(draw: st.DrawFn, suffixes: Sequence[str], bare: set[str]) -> tuple[frozenset[str], ...]:
    """None, one or two; all of *bare* are in one."""
    chosen = [frozenset(suffixes)] if suffixes and once_in(draw, 3) else []
    if chosen and once_in(draw, 3):
        chosen.append(frozenset({pick(draw, suffixes), pick(draw, suffixes)}))
    chosen += [frozenset({suffix, pick(draw, suffixes)}) for suffix in sorted(bare.difference(*chosen))]
    return tuple(chosen)


@st.composite
def forests_and_requests(draw: st.DrawFn) -> tuple[Forest, tuple[CandidateRequest, ...]]:
    """A forest and one to three requests."""
    forest = draw(forests())
    each = requests(forest)
    return forest, tuple(draw(each) for _ in range(1 + draw(below(3))))


@st.composite
def forests_and_requests_beyond(draw: st.DrawFn) -> tuple[Forest, tuple[CandidateRequest, ...]]:
    """A forest and one to three requests with what Stead has of its own."""
    forest = draw(forests())
    each = requests_beyond(forest)
    return forest, tuple(draw(each) for _ in range(1 + draw(below(3))))


@st.composite
def forests_and_provider_queries(draw: st.DrawFn) -> tuple[Forest, ProviderQuery]:
    """A query around one provider, of which each filter may have another in mind."""
    forest = draw(forests())
    witness = pick(draw, forest.providers)

    def meant() -> PlainProvider:
        return pick(draw, forest.providers) if once_in(draw, 4) else witness

    asked = {name: amount_of(draw, held) for name, held in witness.inventories.items() if once_in(draw, 2)}
    query = ProviderQuery(
        name=pick(draw, (meant().name, "nobody")) if once_in(draw, 5) else None,
        uuid=pick(draw, (meant().uuid, UNKNOWN_UUID)) if once_in(draw, 5) else None,
        in_tree=pick(draw, (meant().uuid, meant().uuid, UNKNOWN_UUID)) if once_in(draw, 5) else None,
        in_subtree=pick(draw, (meant().uuid, meant().uuid, UNKNOWN_UUID)) if once_in(draw, 5) else None,
        traits=trait_terms(draw, meant().traits) if once_in(draw, 2) else Terms(),
        aggregates=aggregate_terms(draw, meant().aggregate_uuids) if once_in(draw, 2) else Terms(),
        resources=asked | unusual_class(draw, 5) or None,
    )
    return forest, query
