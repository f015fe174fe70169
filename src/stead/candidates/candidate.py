"""A candidate: one complete way to serve a request, as allocations and mappings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead.candidates.match import Pool
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot


@dataclass(frozen=True, slots=True)
class Candidate:
    """``allocations``: what each provider gives in all, by class id. ``mappings``: who serves each group, by suffix."""

    allocations: Mapping[Slot, Mapping[int, int]]
    mappings: Mapping[str, Sequence[Slot]]

    @classmethod
    def of(cls, pools: Sequence[Pool], way: Sequence[Slot]) -> Candidate:
        """What it means that each of *pools* is served by the provider in its place of *way*."""
        allocations: dict[Slot, dict[int, int]] = {}
        mappings: dict[str, list[Slot]] = {}
        for pool, slot in zip(pools, way, strict=True):
            serving = mappings.setdefault(pool.suffix, [])
            if slot not in serving:
                serving.append(slot)
            if pool.amounts:
                given = allocations.setdefault(slot, {})
                for class_id, amount in pool.amounts.items():
                    given[class_id] = given.get(class_id, 0) + amount
        return cls(allocations, mappings)


def gives_from_one_provider_per_tree(snapshot: Snapshot, candidate: Candidate) -> bool:
    """Whether no two providers of one tree give resources."""
    roots = [int(snapshot.forest.root[slot]) for slot in candidate.allocations]
    return len(set(roots)) == len(roots)
