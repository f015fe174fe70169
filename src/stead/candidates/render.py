"""Render: candidates and the summaries of their providers, straight to JSON bytes.

Source: "Result" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import orjson

from stead.catalog.forest import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.candidates.candidate import Candidate
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest


@dataclass(frozen=True, slots=True)
class Form:
    """What an answer holds; the newest form if nothing is said. Each was once not there yet."""

    dict_allocations: bool = True
    mappings: bool = True
    summary_traits: bool = True
    summary_all_classes: bool = True
    summary_tree: bool = True


def render(snapshot: Snapshot, request: CandidateRequest, found: Sequence[Candidate], form: Form) -> bytes:
    """The whole answer to *request*."""
    requests = _AllocationRequests(snapshot, form)
    body = ",".join(map(requests.render, found))
    slots = _summarised(snapshot, request, found)
    classes = None if form.summary_all_classes else {name for group in request.groups for name in group.resources}
    summaries = ",".join(_summaries(snapshot, slots, classes, form))
    return f'{{"allocation_requests":[{body}],"provider_summaries":{{{summaries}}}}}'.encode()


class _AllocationRequests:
    """Renders candidates; what is alike in many of them is rendered once."""

    def __init__(self, snapshot: Snapshot, form: Form) -> None:
        self._uuids = snapshot.identities.uuids
        self._names = snapshot.class_names.by_id
        self._form = form
        self._resources: dict[tuple[tuple[int, int], ...], str] = {}

    def render(self, candidate: Candidate) -> str:
        if self._form.dict_allocations:
            given = ",".join(
                f'"{self._uuids[slot]}":{{"resources":{self._amounts(amounts.items())}}}'
                for slot, amounts in candidate.allocations.items()
            )
            allocations = f"{{{given}}}"
        else:
            given = ",".join(
                f'{{"resource_provider":{{"uuid":"{self._uuids[slot]}"}},"resources":{self._amounts(amounts.items())}}}'
                for slot, amounts in candidate.allocations.items()
            )
            allocations = f"[{given}]"
        if not self._form.mappings:
            return f'{{"allocations":{allocations}}}'
        mappings = ",".join(
            f'"{suffix}":["' + '","'.join(self._uuids[slot] for slot in slots) + '"]'
            for suffix, slots in candidate.mappings.items()
        )
        return f'{{"allocations":{allocations},"mappings":{{{mappings}}}}}'

    def _amounts(self, amounts: Iterable[tuple[int, int]]) -> str:
        key = tuple(amounts)
        text = self._resources.get(key)
        if text is None:
            text = orjson.dumps({self._names[class_id].name: amount for class_id, amount in key}).decode()
            self._resources[key] = text
        return text


def _summarised(snapshot: Snapshot, request: CandidateRequest, found: Sequence[Candidate]) -> list[Slot]:
    """Providers that stand in the summaries: the whole trees of those that give resources."""
    giving = {slot for candidate in found for slot in candidate.allocations}
    if request.one_provider_per_tree and snapshot.forest.has_nested:
        return sorted(giving)
    roots = sorted({int(snapshot.forest.root[slot]) for slot in giving})
    return [slot for root in roots for slot in snapshot.forest.members(root)]


def _summaries(snapshot: Snapshot, slots: Sequence[Slot], classes: set[str] | None, form: Form) -> Iterable[str]:
    """One member of ``provider_summaries`` for each of *slots*, with these classes (by name) or all."""
    uuids = snapshot.identities.uuids
    traits: dict[int, str] = {}
    for slot, resources in zip(slots, _resources(snapshot, slots, classes), strict=True):
        text = f'"{uuids[slot]}":{{"resources":{{{",".join(resources)}}}'
        if form.summary_traits:
            number = int(snapshot.trait_sets.set_of[slot])
            if number not in traits:
                traits[number] = orjson.dumps([row.name for row in snapshot.traits(slot)]).decode()
            text += f',"traits":{traits[number]}'
        if form.summary_tree:
            parent = int(snapshot.forest.parent[slot])
            above = "null" if parent == NOBODY else f'"{uuids[parent]}"'
            root = uuids[int(snapshot.forest.root[slot])]
            text += f',"parent_provider_uuid":{above},"root_provider_uuid":"{root}"'
        yield text + "}"


def _resources(snapshot: Snapshot, slots: Sequence[Slot], classes: set[str] | None) -> list[list[str]]:
    """For each of *slots* what it has and what is used of it, a text per class; worked out class by class."""
    texts: list[list[str]] = [[] for _ in slots]
    places = np.asarray(slots, np.int64)
    for class_id in sorted(snapshot.inventory):
        name = snapshot.class_names.by_id[class_id].name
        columns = snapshot.inventory[class_id]
        if classes is not None and name not in classes:
            continue
        rows = np.minimum(np.searchsorted(columns.slots, places), len(columns.slots) - 1)
        having = np.flatnonzero(columns.slots[rows] == places)
        chosen = rows[having]
        for place, capacity, used in zip(
            having.tolist(), columns.capacity[chosen].tolist(), columns.used[chosen].tolist(), strict=True
        ):
            texts[place].append(f'"{name}":{{"capacity":{int(capacity)},"used":{used}}}')
    return texts
