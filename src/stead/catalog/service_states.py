"""The providers that give no new allocations: disabled providers, and all providers below them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.forest import NO_SLOT
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stead.catalog.forest import Forest
    from stead.domain.provider import Disabled


class ServiceStates:
    """What follows from a forest and the providers in it that are disabled themselves; immutable."""

    def __init__(self, forest: Forest, disabled: Mapping[Slot, Disabled]) -> None:
        """Nothing is computed yet."""
        self._forest = forest
        self.disabled = disabled

    def still_holds(self, forest: Forest, disabled: Mapping[Slot, Disabled]) -> bool:
        """Whether it was computed from exactly these objects."""
        return self._forest is forest and self.disabled is disabled

    @cached_property
    def out_of_service(self) -> NDArray[np.bool_] | None:
        """Mask of the slots that give no new allocations; None if no provider is disabled. Read-only."""
        if not self.disabled:
            return None
        mask = np.zeros(self._forest.size, np.bool_)
        for slot in self.disabled:
            mask[list(self._forest.subtree(slot))] = True
        mask.flags.writeable = False
        return mask

    def cause(self, slot: int) -> tuple[Slot, Disabled] | None:
        """The provider that disables a slot, and its state: itself, or the nearest above; None if it is enabled."""
        above = slot
        while above != NO_SLOT:
            if (disabled := self.disabled.get(Slot(above))) is not None:
                return Slot(above), disabled
            above = self._forest.parent[above]
        return None
