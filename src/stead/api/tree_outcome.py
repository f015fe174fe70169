"""The answer to PUT ``/provider_trees``: what was done with each provider, or what a dry run would do.

Source: "PUT /provider_trees", docs/api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.api.bodies import Schema, mapping, strict_object
from stead.api.errors import CONCURRENT_UPDATE, Answer, Rows, race
from stead.api.shapes import UUID, show_inventory
from stead.domain.names import RESOURCE_CLASS_NAME
from stead.domain.tree_document import CapacityBelowUse, DescribedProviderGone, RemovedInUse
from stead.process import slices

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.domain.tree_document import Overcommitment, Remaining
    from stead.domain.tree_plan import ProviderPlan, TreePlan

CAPACITY_BELOW_USE = "stead.capacity_below_use"
REMOVED_IN_USE = "stead.in_use"

_AT_ONCE = 256
"""Providers that are written before the answer gives way to short requests."""

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer"}
_NAMES: Schema = {"type": "array", "items": _TEXT}
_MAYBE_TEXT: Schema = {"type": ["string", "null"]}
_TURN = strict_object({"before": _MAYBE_TEXT, "after": _MAYBE_TEXT})
_SETS = strict_object({"added": _NAMES, "removed": _NAMES})
_MAYBE_INVENTORY: Schema = {"anyOf": [{"type": "object"}, {"type": "null"}]}
REMAINING = strict_object(
    {"uuid": UUID, "name": _TEXT, "resource_class": _MAYBE_TEXT, "used": _COUNT, "needed_by": _MAYBE_TEXT}
)
OVERCOMMITTED = strict_object(
    {
        "uuid": UUID,
        "name": _TEXT,
        "resource_class": _TEXT,
        "used": _COUNT,
        "capacity_before": _COUNT,
        "capacity_after": _COUNT,
    }
)
DIFFERENCES = strict_object(
    {},
    {
        "name": _TURN,
        "parent_provider_uuid": _TURN,
        "inventories": mapping(
            RESOURCE_CLASS_NAME, strict_object({"before": _MAYBE_INVENTORY, "after": _MAYBE_INVENTORY, "used": _COUNT})
        ),
        "traits": _SETS,
        "aggregates": _SETS,
    },
)
CHANGES = ("created", "renamed", "moved", "inventories", "traits", "aggregates")


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


OUTCOME = strict_object(
    {
        "dry_run": {"type": "boolean"},
        "providers": _array(
            strict_object(
                {
                    "uuid": {"type": ["string", "null"], "format": "uuid"},
                    "name": _TEXT,
                    "generation": _COUNT,
                    "changes": _array({"type": "string", "enum": list(CHANGES)}),
                    "differences": DIFFERENCES,
                }
            )
        ),
        "deleted": _array(strict_object({"uuid": UUID, "name": _TEXT})),
        "remaining": _array(REMAINING),
        "in_use": _array(REMAINING),
        "overcommitted": _array(OVERCOMMITTED),
        "created_names": strict_object({"resource_classes": _NAMES, "traits": _NAMES}),
    }
)
"""The schema of the answer."""


def show_outcome(plan: TreePlan, *, dry_run: bool) -> dict[str, Any]:
    """The body of the answer."""
    return {
        "dry_run": dry_run,
        "providers": [_show_provider(planned, dry_run=dry_run) for planned in _giving_way(plan.providers)],
        "deleted": [{"uuid": provider.uuid, "name": provider.name} for provider in plan.deleted],
        "remaining": list(map(show_remaining, plan.remaining)),
        "in_use": list(map(show_remaining, plan.in_use)),
        "overcommitted": list(map(show_overcommitment, plan.overcommitted)),
        "created_names": {"resource_classes": list(plan.new_classes), "traits": list(plan.new_traits)},
    }


def _giving_way(providers: Sequence[ProviderPlan]) -> Iterable[ProviderPlan]:
    for number, planned in enumerate(providers):
        if not number % _AT_ONCE:
            slices.give_way()
        yield planned


def _show_provider(planned: ProviderPlan, *, dry_run: bool) -> dict[str, Any]:
    changes = planned.changes
    return {
        # A dry run stores nothing, so the next PUT chooses another uuid.
        "uuid": None if dry_run and planned.is_uuid_chosen else planned.uuid,
        "name": planned.name,
        "generation": planned.generation,
        "changes": changes,
        "differences": _differences(planned) if changes else {},
    }


def _differences(planned: ProviderPlan) -> dict[str, Any]:
    """The values before and after, for each part that changes."""
    before = planned.before
    now = planned.current
    differences: dict[str, Any] = {}
    if before is None or before.name != planned.name:
        differences["name"] = {"before": before and before.name, "after": planned.name}
    if before is None or before.parent != planned.parent:
        differences["parent_provider_uuid"] = {"before": before and before.parent, "after": planned.parent}
    inventories = {
        name: {
            "before": show_inventory(now.inventories[name]) if name in now.inventories else None,
            "after": show_inventory(planned.inventories[name]) if name in planned.inventories else None,
            "used": now.used.get(name, 0),
        }
        for name in sorted(now.inventories.keys() | planned.inventories.keys())
        if now.inventories.get(name) != planned.inventories.get(name)
    }
    if inventories:
        differences["inventories"] = inventories
    for part, had, has in (
        ("traits", now.traits, planned.traits),
        ("aggregates", now.aggregates, planned.aggregates),
    ):
        if had != has:
            differences[part] = {"added": sorted(has - had), "removed": sorted(had - has)}
    return differences


def show_remaining(remaining: Remaining) -> dict[str, Any]:
    """A provider or inventory that stays although the document lacks it."""
    return {
        "uuid": remaining.provider,
        "name": remaining.name,
        "resource_class": remaining.resource_class,
        "used": remaining.used,
        "needed_by": remaining.needed_by,
    }


def show_overcommitment(overcommitment: Overcommitment) -> dict[str, Any]:
    """A capacity that falls below its use."""
    return {
        "uuid": overcommitment.provider,
        "name": overcommitment.name,
        "resource_class": overcommitment.resource_class,
        "used": overcommitment.used,
        "capacity_before": overcommitment.before,
        "capacity_after": overcommitment.after,
    }


REFUSALS: Rows = {
    DescribedProviderGone: Answer(409, CONCURRENT_UPDATE),
    RemovedInUse: Answer(409, REMOVED_IN_USE, more={"in_use": lambda error: list(map(show_remaining, error.in_use))}),
    CapacityBelowUse: Answer(
        409,
        CAPACITY_BELOW_USE,
        more={"overcommitted": lambda error: list(map(show_overcommitment, error.overcommitted))},
    ),
    **race("provider trees"),
}
