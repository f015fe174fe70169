"""Leaving: the consumers that a plan may move, and what at most they release.

A consumer can move if its allocations are from one tree, besides those from sharing providers, which stay.

Source: "GET /advice", docs/api.md; decision 47.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.candidates.moving import largest_first

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from stead.candidates.moving import Tenant
    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot


@dataclass(frozen=True, slots=True)
class Leaver:
    """A consumer that can leave the tree of ``root``, where it releases ``leaving``."""

    tenant: Tenant
    root: int
    leaving: Amounts

    @property
    def kind(self) -> object:
        """Equal for consumers with equal allocations."""
        return frozenset(
            (slot, class_id, n) for slot, amounts in self.tenant.amounts.items() for class_id, n in amounts.items()
        )


def leavers_of(snapshot: Snapshot, tenants: Sequence[Tenant]) -> list[Leaver]:
    """Those of *tenants* that can move, the largest first."""
    leavers = []
    for tenant in largest_first(snapshot, tenants):
        leaving = {slot: amounts for slot, amounts in tenant.amounts.items() if not snapshot.sharing.mask[slot]}
        roots = {snapshot.forest.root[slot] for slot in leaving}
        if len(roots) == 1:
            leavers.append(Leaver(tenant, roots.pop(), leaving))
    return leavers


class MostReleased:
    """What is released at most of some classes if a number of consumers leaves each tree."""

    def __init__(self, leavers: Iterable[Leaver], classes: Collection[int]) -> None:
        self._amounts: dict[tuple[Slot, int], list[int]] = defaultdict(list)
        for leaver in leavers:
            for slot, amounts in leaver.leaving.items():
                for class_id in amounts.keys() & set(classes):
                    self._amounts[slot, class_id].append(amounts[class_id])
        for amounts_there in self._amounts.values():
            amounts_there.sort(reverse=True)

    def by(self, number: int) -> Amounts:
        """The sum of the *number* largest amounts at each place, which may be of different consumers."""
        released: Amounts = {}
        for (slot, class_id), amounts in self._amounts.items():
            released.setdefault(slot, {})[class_id] = sum(amounts[:number])
        return released
