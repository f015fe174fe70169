"""Every way to serve a request, found by trying all combinations and keeping those that the definitions allow.

Slow and plain on purpose: each function is one definition, so that a reader can compare it with the text. It shares no
line with the engine, which is tested against it.

Source: the semantics of allocation candidates, docs/api.md.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.domain.errors import BadRequest, UnknownResourceClass, UnknownTraits
from stead.domain.request import UNSUFFIXED, Apart, CandidateRequest, ProviderQuery, RequestGroup, Terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider

SHARES = "MISC_SHARES_VIA_AGGREGATE"

Take = tuple[str, str, int]
"""From a provider (its name), of a class, an amount."""

Division = tuple[tuple["PlainProvider", str, int], ...]
"""From each of some providers, of one class, a part of the amount."""


@dataclass(frozen=True)
class Way:
    """One candidate, in names: what is taken in total, and which providers serve which group."""

    takes: frozenset[Take]
    mappings: frozenset[tuple[str, frozenset[str]]]

    @property
    def givers(self) -> frozenset[str]:
        """The providers that give resources."""
        return frozenset(provider for provider, _, _ in self.takes)

    def __repr__(self) -> str:
        takes = " + ".join(f"{provider}:{name}:{amount}" for provider, name, amount in sorted(self.takes))
        mapped = "; ".join(f"{suffix!r}→{','.join(sorted(names))}" for suffix, names in sorted(self.mappings, key=str))
        return f"<{takes} ({mapped})>"


@dataclass(frozen=True)
class Refusal:
    """The request names what does not exist; one of *names* is reported."""

    error: type[BadRequest]
    names: frozenset[str]


@dataclass(frozen=True)
class Partial:
    """One way to serve one group under one anchor."""

    providers: frozenset[str]
    takes: tuple[Take, ...]


def every_way(forest: Forest, request: CandidateRequest) -> frozenset[Way] | Refusal:
    """All candidates of *request*, whatever its limit; or what is wrong with it.

    Which comes first, an error or the empty answer, is part of the definition: a group that nothing can serve hides
    the errors of the groups after it.
    """
    verdict = first_obstacle(forest, request)
    if verdict is not None:
        return verdict
    ways = {way for root in eligible_anchors(forest, request) for way in ways_under(forest, request, root)}
    return frozenset(ways)


def ways_under(forest: Forest, request: CandidateRequest, anchor: PlainProvider) -> set[Way]:
    """All candidates whose groups are served under one anchor; the same candidate may stand under others too."""
    partials = [list(partials_of(forest, group, anchor)) for group in request.groups]
    choices = itertools.product(*partials)
    return {as_way(request, choice) for choice in choices if is_candidate(forest, request, choice)}


def first_obstacle(forest: Forest, request: CandidateRequest) -> frozenset[Way] | Refusal | None:
    """The refusal or the empty answer that ends the request before any groups are put together; None if neither."""
    unknown = unknown_traits(forest, request.root_traits)
    if unknown:
        return Refusal(UnknownTraits, unknown)
    anchors = eligible_anchors(forest, request)
    if (request.root_traits or request.root_aggregates) and not anchors:
        return frozenset()
    for group in request.groups:
        verdict = obstacle_of_group(forest, group, anchors)
        if verdict is not None:
            return verdict
    return None


def obstacle_of_group(
    forest: Forest, group: RequestGroup, anchors: Iterable[PlainProvider]
) -> frozenset[Way] | Refusal | None:
    unknown = frozenset(group.resources) - forest.classes
    if unknown:
        return Refusal(UnknownResourceClass, unknown)
    if group.aggregates.clauses and not any(in_aggregates(provider, group.aggregates) for provider in forest.providers):
        return frozenset()
    unknown = unknown_traits(forest, group.traits)
    if unknown:
        return Refusal(UnknownTraits, unknown)
    if group.in_tree is not None and group.in_tree not in forest.by_uuid:
        return frozenset()
    if group.in_subtree is not None and group.in_subtree not in forest.by_uuid:
        return frozenset()
    if not any(True for anchor in anchors for _ in partials_of(forest, group, anchor)):
        return frozenset()
    return None


def unknown_traits(forest: Forest, terms: Terms) -> frozenset[str]:
    """The unknown required traits, all clauses together; only if there are none, the unknown forbidden ones."""
    return frozenset().union(*terms.clauses) - forest.traits or terms.forbidden - forest.traits


def fits(held: PlainInventory | None, amount: int) -> bool:
    return (
        held is not None
        and held.used + amount <= held.capacity
        and held.min_unit <= amount <= held.max_unit
        and amount % held.step_size == 0
    )


def has_traits(traits: Collection[str], terms: Terms) -> bool:
    return all(clause & set(traits) for clause in terms.clauses) and not terms.forbidden & set(traits)


def in_aggregates(provider: PlainProvider, terms: Terms) -> bool:
    """Whether the provider alone is in every clause of *terms*."""
    return all(clause & provider.aggregate_uuids for clause in terms.clauses)


def is_barred(provider: PlainProvider, terms: Terms) -> bool:
    return bool(terms.forbidden & provider.aggregate_uuids)


def is_sharing(provider: PlainProvider) -> bool:
    return SHARES in provider.traits


def anchors_of(forest: Forest, provider: PlainProvider) -> set[str]:
    """The roots under which a provider can serve: its own, and if it shares, those of all it has an aggregate with."""
    others = [other for other in forest.providers if other.aggregates & provider.aggregates]
    return {forest.root(provider.name)} | ({forest.root(other.name) for other in others if is_sharing(provider)})


def eligible_anchors(forest: Forest, request: CandidateRequest) -> list[PlainProvider]:
    return [
        root
        for root in forest.roots
        if has_traits(root.traits, request.root_traits)
        and in_aggregates(root, request.root_aggregates)
        and not is_barred(root, request.root_aggregates)
    ]


def is_in_tree_of(forest: Forest, provider: PlainProvider, uuid: str) -> bool:
    return uuid in forest.by_uuid and forest.root(provider.name) == forest.root(forest.by_uuid[uuid].name)


def is_in_subtree_of(forest: Forest, provider: PlainProvider, uuid: str) -> bool:
    return uuid in forest.by_uuid and forest.by_uuid[uuid].name in forest.line(provider.name)


def partials_of(forest: Forest, group: RequestGroup, anchor: PlainProvider) -> Iterator[Partial]:
    if group.suffix == UNSUFFIXED:
        return partials_of_unsuffixed(forest, group, anchor)
    return partials_of_suffixed(forest, group, anchor)


def partials_of_suffixed(forest: Forest, group: RequestGroup, anchor: PlainProvider) -> Iterator[Partial]:
    """One provider serves everything of the group, by what is set on itself."""
    resourceless = not group.resources
    if resourceless and not (group.like_any_other or group.traits.clauses or group.aggregates.clauses):
        return  # only forbidden things, or only a tree, are no reason to match anything
    for provider in forest.providers:
        if (
            forest.is_enabled(provider.name)
            and anchor.name in anchors_of(forest, provider)
            and all(fits(provider.inventories.get(name), amount) for name, amount in group.resources.items())
            and has_traits(provider.traits, group.traits)
            and in_aggregates(provider, group.aggregates)
            and not is_barred(provider, group.aggregates)
            and (
                group.in_tree is None
                or (resourceless and not group.like_any_other)
                or is_in_tree_of(forest, provider, group.in_tree)
            )
            and (group.in_subtree is None or is_in_subtree_of(forest, provider, group.in_subtree))
        ):
            takes = tuple((provider.name, name, amount) for name, amount in group.resources.items())
            yield Partial(frozenset({provider.name}), takes)


def partials_of_unsuffixed(forest: Forest, group: RequestGroup, anchor: PlainProvider) -> Iterator[Partial]:
    """Each class is served by one provider of the anchor's tree, or by one that shares with it; traits add up.

    What may be split is served by a set of the tree's providers, or by one that shares with it.
    """
    pools = [
        divisions(forest, group, anchor, name, amount)
        if name in group.can_split
        else [((provider, name, amount),) for provider in pool(forest, group, anchor, name, amount)]
        for name, amount in group.resources.items()
    ]
    for chosen in itertools.product(*pools):
        given = [gift for gifts in chosen for gift in gifts]
        collected = {trait for provider, _, _ in given for trait in provider.traits}
        if has_traits(collected, group.traits):
            takes = tuple((provider.name, name, amount) for provider, name, amount in given)
            yield Partial(frozenset(provider.name for provider, _, _ in given), takes)


def divisions(forest: Forest, group: RequestGroup, anchor: PlainProvider, name: str, amount: int) -> list[Division]:
    """A foreign provider gives the whole amount; own ones give it in every set in which nobody is dispensable."""
    whole = pool(forest, group, anchor, name, amount)
    foreign = [((one, name, amount),) for one in whole if forest.root(one.name) != anchor.name]
    shares = {
        provider.name: frozenset(k for k in range(1, amount + 1) if fits(provider.inventories.get(name), k))
        for provider in forest.providers
        if may_join_unsuffixed(forest, group, anchor, provider)
        and not provider.traits & group.traits.forbidden
        and forest.root(provider.name) == anchor.name
    }
    minimal: list[frozenset[str]] = []
    for size in range(1, len(shares) + 1):
        for members in map(frozenset, itertools.combinations(shares, size)):
            if amount in sums(shares[one] for one in members) and not any(less < members for less in minimal):
                minimal.append(members)
    return foreign + [
        tuple((one, name, part) for one, part in canonical(forest, members, shares, amount)) for members in minimal
    ]


def sums(shares: Iterable[frozenset[int]]) -> frozenset[int]:
    """All that one amount of each share can add up to."""
    found = frozenset({0})
    for share in shares:
        found = frozenset(total + part for total in found for part in share)
    return found


def canonical(
    forest: Forest, members: Collection[str], shares: Mapping[str, frozenset[int]], amount: int
) -> Iterator[tuple[PlainProvider, int]]:
    """Whoever can give most comes first, then by uuid, and each gives as much as the others can make up for."""
    turn = sorted(members, key=lambda one: (-max(shares[one]), forest.by_name[one].uuid))
    for number, one in enumerate(turn, 1):
        others = sums(shares[other] for other in turn[number:])
        part = max(part for part in shares[one] if amount - part in others)
        yield forest.by_name[one], part
        amount -= part


def pool(forest: Forest, group: RequestGroup, anchor: PlainProvider, name: str, amount: int) -> list[PlainProvider]:
    return [
        provider
        for provider in forest.providers
        if fits(provider.inventories.get(name), amount) and may_join_unsuffixed(forest, group, anchor, provider)
    ]


def may_join_unsuffixed(forest: Forest, group: RequestGroup, anchor: PlainProvider, provider: PlainProvider) -> bool:
    terms = group.aggregates
    is_own = forest.root(provider.name) == anchor.name
    is_shared = (
        is_sharing(provider)
        and anchor.name in anchors_of(forest, provider)
        and group.in_tree is None
        and in_aggregates(provider, terms)
    )
    return (
        forest.is_enabled(provider.name)
        and (is_own or is_shared)
        and (group.in_tree is None or is_in_tree_of(forest, anchor, group.in_tree))
        and (group.in_subtree is None or (is_own and is_in_subtree_of(forest, provider, group.in_subtree)))
        and (in_aggregates(provider, terms) or in_aggregates(anchor, terms))
        and not is_barred(provider, terms)
        and not is_barred(anchor, terms)
    )


def is_candidate(forest: Forest, request: CandidateRequest, choice: tuple[Partial, ...]) -> bool:
    served = dict(zip((group.suffix for group in request.groups), choice, strict=True))
    totals = total_takes(choice)
    return (
        (not request.isolate or are_isolated(served))
        and are_alone(served, request.isolated)
        and all(is_one_subtree(forest, served, suffixes) for suffixes in request.same_subtree)
        and all(keeps_apart(forest, served, apart) for apart in request.apart)
        and all(fits_in_total(forest, provider, name, amount) for (provider, name), amount in totals.items())
        and not (request.one_provider_per_tree and forest.is_nested and two_of_a_tree(forest, totals))
    )


def total_takes(choice: Iterable[Partial]) -> Counter[tuple[str, str]]:
    totals: Counter[tuple[str, str]] = Counter()
    for partial in choice:
        for provider, name, amount in partial.takes:
            totals[provider, name] += amount
    return totals


def are_isolated(served: dict[str, Partial]) -> bool:
    used = [provider for suffix, partial in served.items() if suffix != UNSUFFIXED for provider in partial.providers]
    return len(used) == len(set(used))


def are_alone(served: dict[str, Partial], isolated: Collection[str]) -> bool:
    """Whether no provider of these groups serves another suffixed group."""
    suffixed = [suffix for suffix in served if suffix != UNSUFFIXED]
    pairs = [(one, other) for one in isolated for other in suffixed if other != one]
    return all(served[one].providers.isdisjoint(served[other].providers) for one, other in pairs)


def keeps_apart(forest: Forest, served: dict[str, Partial], apart: Apart) -> bool:
    """Whether the groups together are one subtree, and would not be one with any of the others."""
    return is_one_subtree(forest, served, apart.together) and not any(
        is_one_subtree(forest, served, apart.together | {other}) for other in apart.others
    )


def is_one_subtree(forest: Forest, served: dict[str, Partial], suffixes: Collection[str]) -> bool:
    """Whether one of the providers that serve these groups has all of them in its subtree."""
    used = {provider for suffix in suffixes for provider in served[suffix].providers}
    return any(all(top in forest.line(provider) for provider in used) for top in used)


def fits_in_total(forest: Forest, provider: str, name: str, amount: int) -> bool:
    held = forest.by_name[provider].inventories[name]
    return held.used + amount <= held.capacity and amount <= held.max_unit


def two_of_a_tree(forest: Forest, totals: Iterable[tuple[str, str]]) -> bool:
    givers = {provider for provider, _ in totals}
    return len({forest.root(provider) for provider in givers}) < len(givers)


def as_way(request: CandidateRequest, choice: tuple[Partial, ...]) -> Way:
    totals = total_takes(choice)
    takes = frozenset((provider, name, amount) for (provider, name), amount in totals.items())
    suffixes = [group.suffix for group in request.groups]
    return Way(takes, frozenset((suffix, part.providers) for suffix, part in zip(suffixes, choice, strict=True)))


def summarised_trees(forest: Forest, returned: Iterable[Way]) -> frozenset[str]:
    """All providers of every tree that gives resources in a returned candidate."""
    roots = {forest.root(giver) for way in returned for giver in way.givers}
    return frozenset(provider.name for provider in forest.providers if forest.root(provider.name) in roots)


def summarised_givers(forest: Forest, everything: Iterable[Way], returned: Iterable[Way]) -> frozenset[str]:
    """What versions before 1.29 show if anything is nested: givers of all candidates, cut to the returned trees."""
    givers = frozenset(giver for way in everything for giver in way.givers)
    return givers & summarised_trees(forest, returned)


def every_provider(forest: Forest, query: ProviderQuery) -> frozenset[str] | Refusal:
    """The names of the providers that pass all filters by themselves; or what is wrong with the query.

    A positive filter that no provider passes hides what is wrong with the filters after it. Names, uuids and forbidden
    things hide nothing.
    """
    if query.in_tree is not None and query.in_tree not in forest.by_uuid:
        return frozenset()
    if query.in_subtree is not None and query.in_subtree not in forest.by_uuid:
        return frozenset()
    unknown = frozenset().union(*query.traits.clauses) - forest.traits
    if unknown:
        return Refusal(UnknownTraits, unknown)
    required = Terms(query.traits.clauses)
    if required and not any(has_traits(provider.traits, required) for provider in forest.providers):
        return frozenset()
    unknown = query.traits.forbidden - forest.traits
    if unknown:
        return Refusal(UnknownTraits, unknown)
    members = Terms(query.aggregates.clauses)
    if members and not any(in_aggregates(provider, members) for provider in forest.providers):
        return frozenset()
    resources = query.resources or {}
    unknown = frozenset(resources) - forest.classes
    if unknown:
        return Refusal(UnknownResourceClass, unknown)
    return frozenset(
        provider.name
        for provider in forest.providers
        if passes_all_but_resources(forest, query, provider)
        and all(fits(provider.inventories.get(name), amount) for name, amount in resources.items())
    )


def passes_all_but_resources(forest: Forest, query: ProviderQuery, provider: PlainProvider) -> bool:
    return (
        query.name in (None, provider.name)
        and query.uuid in (None, provider.uuid)
        and (query.in_tree is None or is_in_tree_of(forest, provider, query.in_tree))
        and (query.in_subtree is None or is_in_subtree_of(forest, provider, query.in_subtree))
        and has_traits(provider.traits, query.traits)
        and in_aggregates(provider, query.aggregates)
        and not is_barred(provider, query.aggregates)
    )
