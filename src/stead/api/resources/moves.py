"""Moves of consumers as JSON. Each is a body of PUT ``/allocations/{consumer_uuid}``, and an entry of POST ``/claims``.

Source: "POST /whatif", docs/api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from stead.api.bodies import Schema, mapping, strict_object
from stead.api.shapes import UUID
from stead.domain.names import RESOURCE_CLASS_NAME
from stead.store.usages import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.candidates.moving import Move
    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot
    from stead.store.consumer_listing import HeldAllocations

Json = dict[str, Any]

AMOUNTS = mapping("^[0-9a-fA-F-]{36}$", strict_object({"resources": mapping(RESOURCE_CLASS_NAME, {"type": "integer"})}))
MOVE: Schema = strict_object(
    {
        "consumer_uuid": UUID,
        "consumer_generation": {"type": "integer"},
        "project_id": {"type": "string"},
        "user_id": {"type": "string"},
        "consumer_type": {"type": "string"},
        "from": AMOUNTS,
        "allocations": AMOUNTS,
        "query": {"type": ["string", "null"]},
    }
)
"""The schema of a move."""


def show_move(snapshot: Snapshot, allocations: Mapping[str, HeldAllocations], move: Move) -> Json:
    """A move. *allocations* has the present allocations by consumer."""
    present, names = allocations[move.tenant.consumer], snapshot.class_names.by_id
    new = {
        snapshot.uuid(slot): {names[id_].name: n for id_, n in by_class.items()}
        for slot, by_class in move.amounts.items()
    }
    return {
        "consumer_uuid": move.tenant.consumer,
        "consumer_generation": present.generation,
        "project_id": present.project,
        "user_id": present.user,
        "consumer_type": present.consumer_type or UNKNOWN,
        "from": show_amounts(present.amounts()),
        "allocations": show_amounts(new),
        "query": _query(snapshot, move.amounts),
    }


def show_amounts(amounts: Mapping[str, Mapping[str, int]]) -> Json:
    """Amounts by provider uuid and class name, as in an allocation request."""
    return {uuid: {"resources": dict(resources)} for uuid, resources in amounts.items()}


def _query(snapshot: Snapshot, amounts: Amounts) -> str | None:
    """A candidate query for exactly these allocations: a group for each provider. None if no such query exists."""
    forest, sharing = snapshot.forest, snapshot.sharing.mask
    # A candidate is under one anchor, so it cannot use two trees.
    if len({forest.root[slot] for slot in amounts if not sharing[slot]}) > 1:
        return None
    pairs = []
    for number, (slot, by_class) in enumerate(sorted(amounts.items()), 1):
        # `in_subtree` also admits the providers below, and the query must have no other candidate.
        if any(_can_give(snapshot, other, by_class) for other in forest.subtree(slot)[1:]):
            return None
        resources = ",".join(f"{snapshot.class_names.by_id[class_id].name}:{n}" for class_id, n in by_class.items())
        pairs += [(f"resources{number}", resources), (f"in_subtree{number}", snapshot.uuid(slot))]
    if len(amounts) > 1:
        pairs.append(("group_policy", "none"))
    return urlencode(pairs, safe=":,")


def _can_give(snapshot: Snapshot, slot: int, classes: Mapping[int, int]) -> bool:
    return all(snapshot.inventory[class_id].kind[slot] > 0 for class_id in classes)
