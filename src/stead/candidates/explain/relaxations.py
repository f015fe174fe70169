"""Relaxations: copies of a request with one change, which may have candidates.

Source: "Explaining" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stead.candidates.explain.funnel import ROOM, Constraint, spelled
from stead.candidates.explain.verdicts import isolation, subtree_values
from stead.domain.request import UNSUFFIXED, Terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stead.candidates.explain.funnel import Choice
    from stead.domain.request import CandidateRequest, RequestGroup


@dataclass(frozen=True, slots=True)
class Relaxation:
    """One change of a request, and the changed ``request``.

    It removes the constraint ``without``, adds the constraint ``instead``, or replaces the first by the second.
    """

    request: CandidateRequest
    without: Constraint | None
    instead: Constraint | None = None


def relaxations(request: CandidateRequest, choices: Sequence[Choice]) -> Iterator[Relaxation]:
    """All changes that may help. *choices* say how much the nearest providers lack."""
    for constraint, terms in _fewer(request.root_traits, "root_required"):
        yield Relaxation(replace(request, root_traits=terms), constraint)
    for constraint, terms in _fewer(request.root_aggregates, "root_member_of"):
        yield Relaxation(replace(request, root_aggregates=terms), constraint)
    lacking = _lacking(choices)
    for number, group in enumerate(request.groups):
        for changed, without, instead in _of_group(group, lacking.get(group.suffix, {})):
            groups = (*request.groups[:number], changed, *request.groups[number + 1 :])
            # A group without resources and parameters cannot be written in a query.
            if changed.resources or _is_named(changed):
                yield Relaxation(replace(request, groups=groups), without, instead)
    if request.isolate or request.isolated:
        yield Relaxation(replace(request, isolate=False, isolated=frozenset()), isolation(request))
    plain = len(request.same_subtree)
    for number, value in enumerate(subtree_values(request)):
        closer = replace(
            request,
            same_subtree=request.same_subtree[:number] + request.same_subtree[number + 1 :],
            apart=request.apart
            if number < plain
            else request.apart[: number - plain] + request.apart[number - plain + 1 :],
        )
        # The API rejects a group without resources that no `same_subtree` names.
        if _names_all_without_resources(closer):
            yield Relaxation(closer, Constraint("same_subtree", value))


def _of_group(
    group: RequestGroup, lacking: Mapping[str, int]
) -> Iterator[tuple[RequestGroup, Constraint | None, Constraint | None]]:
    suffix = group.suffix
    for name, amount in group.resources.items():
        enough = amount - lacking.get(name, 0)
        if 0 < enough < amount:
            less, word = replace(group, resources={**group.resources, name: enough}), f"resources{suffix}"
            yield less, Constraint(word, f"{name}:{amount}"), Constraint(word, f"{name}:{enough}")
    for constraint, terms in _fewer(group.traits, f"required{suffix}"):
        yield replace(group, traits=terms), constraint, None
    for constraint, terms in _fewer(group.aggregates, f"member_of{suffix}"):
        yield replace(group, aggregates=terms), constraint, None
    if group.in_tree is not None:
        yield replace(group, in_tree=None), Constraint(f"in_tree{suffix}", group.in_tree), None
    if group.in_subtree is not None:
        yield replace(group, in_subtree=None), Constraint(f"in_subtree{suffix}", group.in_subtree), None
    if suffix == UNSUFFIXED:
        for name in group.resources:
            if name not in group.can_split:
                yield replace(group, can_split=group.can_split | {name}), None, Constraint("can_split", name)


def _lacking(choices: Sequence[Choice]) -> dict[str, dict[str, int]]:
    """By suffix and class, how much the nearest provider lacks, of those that meet all other constraints."""
    lacking: dict[str, dict[str, int]] = {}
    for choice in choices:
        for miss in choice.misses:
            if miss.constraint.check == ROOM and miss.lacking:
                of_group = lacking.setdefault(choice.suffix, {})
                of_group[miss.constraint.value.partition(":")[0]] = miss.lacking[0][0]
    return lacking


def _fewer(terms: Terms, parameter: str) -> Iterator[tuple[Constraint, Terms]]:
    """*terms* without one of them, for each of them."""
    for number, clause in enumerate(terms.clauses):
        others = terms.clauses[:number] + terms.clauses[number + 1 :]
        yield Constraint(parameter, spelled(clause)), replace(terms, clauses=others)
    for name in sorted(terms.forbidden):
        yield Constraint(parameter, f"!{name}"), replace(terms, forbidden=terms.forbidden - {name})


def _is_named(group: RequestGroup) -> bool:
    """Whether a group without resources still has a parameter with its suffix in the query."""
    return bool(group.traits or group.aggregates or group.in_tree or group.in_subtree)


def _names_all_without_resources(request: CandidateRequest) -> bool:
    named = frozenset().union(*request.same_subtree, *(apart.together | apart.others for apart in request.apart))
    return all(group.resources or group.suffix in named for group in request.groups)
