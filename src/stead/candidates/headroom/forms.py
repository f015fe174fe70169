"""Forms: requests that differ only in amounts and in the names of their groups are counted together.

A site has hundreds of flavors but few forms of flavors: most request the same classes, with other amounts.

Source: decision 46.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.demand import demand_of
from stead.candidates.match import Pool, admitted, eligible_anchors
from stead.candidates.resolve import resolve, resolve_aggregates, resolve_traits
from stead.domain.inventory import MAX_INT
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.demand import Demand
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]


def form_of(request: CandidateRequest) -> Hashable:
    """What *request* has in common with the requests that are counted together with it; None if none can be."""
    if any(
        not group.resources or group.can_split or max(group.resources.values()) > MAX_INT for group in request.groups
    ):
        return None
    number_of = {group.suffix: number for number, group in enumerate(request.groups)}

    def numbers(suffixes: Iterable[str]) -> frozenset[int]:
        return frozenset(number_of[suffix] for suffix in suffixes)

    # Groups that compete for a class are counted in another way if their amounts are equal.
    distinct: dict[str, dict[int, int]] = defaultdict(dict)
    groups = tuple(
        (
            group.suffix == UNSUFFIXED,
            tuple((c, distinct[c].setdefault(amount, len(distinct[c]))) for c, amount in group.resources.items()),
            (group.traits, group.aggregates, group.in_tree, group.in_subtree),
        )
        for group in request.groups
    )
    return (
        groups,
        (request.isolate, numbers(request.isolated), request.one_provider_per_tree),
        tuple(numbers(suffixes) for suffixes in request.same_subtree),
        tuple((numbers(apart.together), numbers(apart.others)) for apart in request.apart),
        (request.root_traits, request.root_aggregates),
    )


@dataclass(frozen=True, slots=True)
class Matched:
    """What requests of one form have in common in a snapshot.

    ``pools`` have the providers that could serve each need if amounts did not matter. ``amounts`` are by need, then by
    class id, arrays of shape ``(requests,)``. ``clauses`` are masks of the providers that meet each of them.
    """

    pools: Sequence[Pool]
    amounts: Sequence[Mapping[int, Numbers]]
    demand: Demand
    clauses: Sequence[Mask]
    eligible: Mask


def match_form(snapshot: Snapshot, requests: Sequence[CandidateRequest]) -> Matched | None:
    """What *requests* of one form have in common; None if their names alone exclude every provider.

    All names must be known.
    """
    pools: list[Pool] = []
    amounts: list[Mapping[int, Numbers]] = []
    clauses: list[Mask] = []
    nowhere = np.empty(0, np.int64)
    for number, group in enumerate(requests[0].groups):
        resolved = resolve(snapshot, group)
        if resolved is None or not snapshot.inventory.keys() >= resolved.amounts.keys():
            return None
        able = admitted(snapshot, resolved)
        of_group = {
            class_id: np.array([request.groups[number].resources[name] for request in requests], np.int64)
            for name, class_id in zip(group.resources, resolved.amounts, strict=True)
        }
        if group.suffix == UNSUFFIXED:
            pools += [Pool(UNSUFFIXED, {c: amount}, able, nowhere) for c, amount in resolved.amounts.items()]
            amounts += [{class_id: of_requests} for class_id, of_requests in of_group.items()]
            clauses += [snapshot.with_traits([clause], ()) for clause in resolved.traits.clauses]
        else:
            pools.append(Pool(group.suffix, resolved.amounts, able, nowhere))
            amounts.append(of_group)
    root_traits = resolve_traits(snapshot, requests[0].root_traits)
    root_aggregates = resolve_aggregates(snapshot, requests[0].root_aggregates)
    eligible = eligible_anchors(snapshot, root_traits, root_aggregates)
    return Matched(pools, amounts, demand_of(pools, requests[0]), clauses, eligible)
