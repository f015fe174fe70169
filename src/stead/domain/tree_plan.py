"""The changes that make provider trees match a document, as values: `tree_planning` computes them.

Source: "PUT /provider_trees", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.domain.tree_document import (
    CapacityBelowUse,
    CurrentProvider,
    Overcommitment,
    Remaining,
    RemovedInUse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead.domain.inventory import Inventory
    from stead.domain.tree_document import TreeDocument


@dataclass(frozen=True, slots=True)
class ProviderPlan:
    """The target state of a described provider; ``before`` is None for a new one, ``parent`` and ``root`` are uuids."""

    before: CurrentProvider | None
    uuid: str
    is_uuid_chosen: bool
    """Whether the server chose the uuid of a new provider."""
    name: str
    parent: str | None
    root: str
    inventories: Mapping[str, Inventory]
    traits: frozenset[str]
    aggregates: frozenset[str]

    @property
    def current(self) -> CurrentProvider:
        """The current state of the provider; empty for a new one."""
        return self.before or CurrentProvider(self.uuid, self.name, 0, self.parent, self.root)

    @property
    def is_created(self) -> bool:
        """Whether the provider does not exist."""
        return self.before is None

    @property
    def is_renamed(self) -> bool:
        """Whether an existing provider gets another name."""
        return self.before is not None and self.before.name != self.name

    @property
    def is_moved(self) -> bool:
        """Whether an existing provider gets another parent, or becomes a root."""
        return self.before is not None and self.before.parent != self.parent

    @property
    def replaced_parts(self) -> list[str]:
        """The parts (inventories, traits, aggregates) that change. Each raises the generation by one."""
        now = self.current
        differences = {
            "inventories": now.inventories != self.inventories,
            "traits": now.traits != self.traits,
            "aggregates": now.aggregates != self.aggregates,
        }
        return [part for part, differs in differences.items() if differs]

    @property
    def generation(self) -> int:
        """The generation after the change."""
        return self.current.generation + len(self.replaced_parts)

    @property
    def changes(self) -> list[str]:
        """The kinds of changes to the provider, as the API names them; empty if there are none."""
        done = {"created": self.is_created, "renamed": self.is_renamed, "moved": self.is_moved}
        return [*(word for word, is_done in done.items() if is_done), *self.replaced_parts]


@dataclass(frozen=True, slots=True)
class TreePlan:
    """All changes.

    Attributes:
        providers: the described ones, in the order of the document.
        deleted: children before their parents.
        replanted: the new root's uuid of each existing provider whose root changes, also below a moved provider.
        new_classes, new_traits: custom names that are created, sorted.
        remaining: objects that stay although the document lacks them.
        in_use: objects that the document deletes although they have allocations; empty with ``keep_used``.
        overcommitted: capacities that fall below their use.
    """

    providers: Sequence[ProviderPlan]
    deleted: Sequence[CurrentProvider]
    replanted: Mapping[str, str]
    new_classes: Sequence[str]
    new_traits: Sequence[str]
    remaining: Sequence[Remaining]
    in_use: Sequence[Remaining]
    overcommitted: Sequence[Overcommitment]

    @property
    def is_empty(self) -> bool:
        """Whether the current state already matches the document."""
        return not self.deleted and not any(planned.changes for planned in self.providers)

    def require_allowed(self, document: TreeDocument) -> None:
        """Refuse a plan that deletes or shrinks allocated resources.

        Raises:
            RemovedInUse
            CapacityBelowUse: unless the document allows it.
        """
        if self.in_use:
            raise RemovedInUse(self.in_use)
        if self.overcommitted and not document.allow_overcommit:
            raise CapacityBelowUse(self.overcommitted)
