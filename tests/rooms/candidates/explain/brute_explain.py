"""Explanations by counting: each number is what the definition says, of all providers and all ways.

Source: "Explaining" of allocation candidates, docs/stead-api.md.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from stead.domain.request import UNSUFFIXED, CandidateRequest, RequestGroup, Terms
from tests.rooms.candidates.brute_force import (
    are_alone,
    are_isolated,
    eligible_anchors,
    fits,
    fits_in_total,
    has_traits,
    in_aggregates,
    is_barred,
    is_in_subtree_of,
    is_in_tree_of,
    is_one_subtree,
    is_sharing,
    keeps_apart,
    may_join_unsuffixed,
    partials_of,
    pool,
    total_takes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.rooms.candidates.brute_force import Partial
    from tests.rooms.candidates.plain import Forest, PlainProvider

    Passes = Callable[[PlainProvider], bool]
    Test = tuple[tuple[str, str, str | None], Passes, Passes]
    """A constraint, who passes it in its own tree, and which sharing provider for other trees."""

Row = tuple[tuple[str, str, str | None], int]
"""A constraint, and how many it leaves."""


def spelled(clause: frozenset[str]) -> str:
    return min(clause) if len(clause) == 1 else "in:" + ",".join(sorted(clause))


def each(terms: Terms) -> Iterator[tuple[str, Terms]]:
    for clause in terms.clauses:
        yield spelled(clause), Terms((clause,))
    for name in sorted(terms.forbidden):
        yield f"!{name}", Terms((), frozenset({name}))


def meets_aggregates(provider: PlainProvider, terms: Terms) -> bool:
    return in_aggregates(provider, terms) and not is_barred(provider, terms)


def check_of(forest: Forest, terms: Terms) -> str | None:
    """Aggregates are unknown if no provider is in any of them."""
    return None if terms.forbidden or any(in_aggregates(one, terms) for one in forest.providers) else "unknown"


def root_rows(forest: Forest, request: CandidateRequest) -> list[Row]:
    left, rows = list(forest.roots), []
    for value, terms in each(request.root_traits):
        left = [root for root in left if has_traits(root.traits, terms)]
        rows.append((("root_required", value, None), len(left)))
    for value, terms in each(request.root_aggregates):
        left = [root for root in left if meets_aggregates(root, terms)]
        rows.append((("root_member_of", value, check_of(forest, terms)), len(left)))
    return rows


def choice_tests(forest: Forest, group: RequestGroup) -> list[tuple[str | None, list[Test]]]:
    """The tests of each choice of a group."""
    states = list(state_tests(forest))
    if group.suffix == UNSUFFIXED:
        return [
            (name, [*states, *amount_tests(group, name), *unsuffixed_tests(forest, group)]) for name in group.resources
        ]
    tests = [test for name in group.resources for test in amount_tests(group, name)]
    return [(None, [*states, *tests, *suffixed_tests(forest, group)])]


def state_tests(forest: Forest) -> Iterator[Test]:
    if any(one.is_disabled for one in forest.providers):
        yield alike("disabled", "false", None, lambda one: forest.is_enabled(one.name))


def alike(parameter: str, value: str, check: str | None, passes: Passes) -> Test:
    return (parameter, value, check), passes, passes


def amount_tests(group: RequestGroup, name: str) -> Iterator[Test]:
    amount = group.resources[name]
    words = f"resources{group.suffix}", f"{name}:{amount}"
    yield alike(*words, "inventory", lambda one: name in one.inventories)
    if name in group.can_split:
        parts = range(1, amount + 1)
        yield (
            (*words, "part"),
            lambda one: any(fits(one.inventories.get(name), part) for part in parts),
            lambda one: fits(one.inventories.get(name), amount),
        )
        return
    yield alike(
        *words,
        "units",
        lambda one: (
            (held := one.inventories.get(name)) is not None
            and held.min_unit <= amount <= held.max_unit
            and amount % held.step_size == 0
        ),
    )
    yield alike(*words, "room", lambda one: name in one.inventories and has_room(one, name, amount))


def has_room(provider: PlainProvider, name: str, amount: int) -> bool:
    """Nothing can hold more than an integer of the database."""
    return amount <= 2147483647 and lacking(provider, name, amount) <= 0


def lacking(provider: PlainProvider, name: str, amount: int) -> int:
    held = provider.inventories[name]
    return amount - (held.capacity - held.used)


def suffixed_tests(forest: Forest, group: RequestGroup) -> Iterator[Test]:
    for value, terms in each(group.traits):
        yield alike(f"required{group.suffix}", value, None, lambda one, t=terms: has_traits(one.traits, t))
    for value, terms in each(group.aggregates):
        check = check_of(forest, terms)
        yield alike(f"member_of{group.suffix}", value, check, lambda one, t=terms: meets_aggregates(one, t))
    for parameter, uuid, check, passes in places(forest, group):
        yield alike(parameter, uuid, check, passes)


def unsuffixed_tests(forest: Forest, group: RequestGroup) -> Iterator[Test]:
    def root(one: PlainProvider) -> PlainProvider:
        return forest.by_name[forest.root(one.name)]

    for value, terms in each(Terms((), group.traits.forbidden)):
        yield alike("required", value, None, lambda one, t=terms: has_traits(one.traits, t))
    unknown = [clause for clause in group.aggregates.clauses if check_of(forest, Terms((clause,)))]
    for clause in unknown:
        yield alike("member_of", spelled(clause), "unknown", lambda _: False)
    wanted = Terms(tuple(clause for clause in group.aggregates.clauses if clause not in unknown))
    if wanted:
        yield (
            ("member_of", " and ".join(map(spelled, wanted.clauses)), None),
            lambda one: in_aggregates(one, wanted) or in_aggregates(root(one), wanted),
            lambda one: in_aggregates(one, wanted),
        )
    for value, terms in each(Terms((), group.aggregates.forbidden)):
        yield (
            ("member_of", value, None),
            lambda one, t=terms: not is_barred(one, t) and not is_barred(root(one), t),
            lambda one, t=terms: not is_barred(one, t),
        )
    for parameter, uuid, check, passes in places(forest, group):
        yield (parameter, uuid, check), passes, lambda _: False


def places(forest: Forest, group: RequestGroup) -> Iterator[tuple[str, str, str | None, Passes]]:
    def check(passes: Passes) -> str | None:
        return None if any(map(passes, forest.providers)) else "unknown"

    if (tree := group.in_tree) is not None:
        passes = partial(is_in_tree_of, forest, uuid=tree)
        yield f"in_tree{group.suffix}", tree, check(passes), passes
    if (top := group.in_subtree) is not None:
        passes = partial(is_in_subtree_of, forest, uuid=top)
        yield f"in_subtree{group.suffix}", top, check(passes), passes


def group_rows(forest: Forest, tests: Sequence[Test]) -> list[Row]:
    rows = []
    for number, (words, _, _) in enumerate(tests, 1):
        left = [
            one
            for one in forest.providers
            if all(own(one) for _, own, _ in tests[:number])
            or (is_sharing(one) and all(shared(one) for _, _, shared in tests[:number]))
        ]
        rows.append((words, len(left)))
    return rows


def near_misses(forest: Forest, tests: Sequence[Test]) -> dict[tuple[str, str, str | None], set[str]]:
    """Who fails which constraint alone, of those with inventory of everything."""
    found: dict[tuple[str, str, str | None], set[str]] = {}
    for one in forest.providers:
        failed = [words for words, own, _ in tests if not own(one)]
        if len(failed) == 1 and failed[0][2] not in ("inventory", "unknown"):
            found.setdefault(failed[0], set()).add(one.name)
    return found


def tree_rows(forest: Forest, request: CandidateRequest) -> list[tuple[object, int]]:
    """What each choice, and then each thing that binds them, leaves of the trees."""
    left, rows = eligible_anchors(forest, request), []
    for group in request.groups:
        for name in group.resources if group.suffix == UNSUFFIXED else [None]:
            left = [anchor for anchor in left if is_served(forest, group, name, anchor)]
            rows.append(((group.suffix, name), len(left)))
    for words, holds in stages(forest, request):
        left = [anchor for anchor in left if any(map(holds, choices_under(forest, words, request, anchor)))]
        rows.append((words, len(left)))
    return rows


def is_served(forest: Forest, group: RequestGroup, name: str | None, anchor: PlainProvider) -> bool:
    if name is None:
        return any(True for _ in partials_of(forest, group, anchor))
    bare = replace(group, traits=Terms((), group.traits.forbidden))
    amount = group.resources[name]
    whole = [one for one in pool(forest, bare, anchor, name, amount) if has_traits(one.traits, bare.traits)]
    if name not in group.can_split:
        return bool(whole)
    foreign = [one for one in whole if forest.root(one.name) != anchor.name]
    own = [
        max((k for k in range(1, amount + 1) if fits(one.inventories.get(name), k)), default=0)
        for one in forest.providers
        if forest.root(one.name) == anchor.name
        and may_join_unsuffixed(forest, bare, anchor, one)
        and has_traits(one.traits, bare.traits)
    ]
    return bool(foreign) or sum(own) >= amount


def stages(
    forest: Forest, request: CandidateRequest
) -> list[tuple[tuple[str, str, str | None], Callable[[tuple[Partial, ...]], bool]]]:
    """What binds choices together, each with all before it."""
    suffixes = [group.suffix for group in request.groups]
    found: list[tuple[tuple[str, str, str | None], Callable[[dict[str, Partial]], bool]]] = []
    unsuffixed = [group for group in request.groups if group.suffix == UNSUFFIXED]
    if unsuffixed and unsuffixed[0].can_split:
        found.append((("can_split", ",".join(sorted(unsuffixed[0].can_split)), None), lambda _: True))
    if unsuffixed and unsuffixed[0].traits.clauses:
        value = " and ".join(map(spelled, unsuffixed[0].traits.clauses))
        found.append((("required", value, None), lambda _: True))
    times = Counter(name for group in request.groups for name in group.resources)
    contested = sorted(name for name, number in times.items() if number > 1)
    if contested:
        found.append(
            (
                ("resources", ",".join(contested), "sum"),
                lambda served: all(
                    fits_in_total(forest, provider, name, amount)
                    for (provider, name), amount in total_takes(served.values()).items()
                ),
            )
        )
    suffixed = [suffix for suffix in suffixes if suffix != UNSUFFIXED]
    if request.isolate and len(suffixed) > 1:
        found.append((("group_policy", "isolate", None), are_isolated))
    elif request.isolated and len(suffixed) > 1:
        value = ",".join(sorted(request.isolated))
        found.append((("isolate", value, None), lambda served: are_alone(served, request.isolated)))
    for together in request.same_subtree:
        value = ",".join(sorted(together))
        found.append(
            (("same_subtree", value, None), lambda served, some=together: is_one_subtree(forest, served, some))
        )
    for apart in request.apart:
        value = ",".join([*sorted(apart.together), *(f"!{other}" for other in sorted(apart.others))])
        found.append((("same_subtree", value, None), lambda served, some=apart: keeps_apart(forest, served, some)))
    holding = [holds for _, holds in found]
    return [
        (
            words,
            lambda choice, some=tuple(holding[:number]): all(
                holds(dict(zip(suffixes, choice, strict=True))) for holds in some
            ),
        )
        for number, (words, _) in enumerate(found, 1)
    ]


def choices_under(
    forest: Forest, stage: tuple[str, str, str | None], request: CandidateRequest, anchor: PlainProvider
) -> Iterator[tuple[Partial, ...]]:
    """All choices of partials; before the required traits of the unsuffixed group are taken up, without them."""
    groups = [
        replace(group, traits=Terms((), group.traits.forbidden))
        if group.suffix == UNSUFFIXED and stage[0] == "can_split"
        else group
        for group in request.groups
    ]
    return itertools.product(*(list(partials_of(forest, group, anchor)) for group in groups))


def without_a_term(request: CandidateRequest) -> Iterator[CandidateRequest]:
    """The request without each one of its terms and bonds, as far as a query could say so."""
    for terms in fewer(request.root_traits):
        yield replace(request, root_traits=terms)
    for terms in fewer(request.root_aggregates):
        yield replace(request, root_aggregates=terms)
    for number, group in enumerate(request.groups):
        changed = [
            *(replace(group, traits=terms) for terms in fewer(group.traits)),
            *(replace(group, aggregates=terms) for terms in fewer(group.aggregates)),
            *([replace(group, in_tree=None)] if group.in_tree else []),
            *([replace(group, in_subtree=None)] if group.in_subtree else []),
        ]
        for one in changed:
            if one.resources or one.traits or one.aggregates or one.in_tree or one.in_subtree:
                groups = list(request.groups)
                groups[number] = one
                yield replace(request, groups=tuple(groups))
    if request.isolate or request.isolated:
        yield replace(request, isolate=False, isolated=frozenset())
    for index in range(len(request.same_subtree) + len(request.apart)):
        values = [*request.same_subtree, *request.apart]
        del values[index]
        same = tuple(value for value in values if isinstance(value, frozenset))
        apart = tuple(value for value in values if not isinstance(value, frozenset))
        named = frozenset().union(*same, *(one.together | one.others for one in apart))
        if all(group.resources or group.suffix in named for group in request.groups):
            yield replace(request, same_subtree=same, apart=apart)


def fewer(terms: Terms) -> Iterator[Terms]:
    for number in range(len(terms.clauses)):
        yield replace(terms, clauses=terms.clauses[:number] + terms.clauses[number + 1 :])
    for name in terms.forbidden:
        yield replace(terms, forbidden=terms.forbidden - {name})
