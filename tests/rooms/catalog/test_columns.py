"""Columns that several threads read at once."""

import pytest

from stead.catalog.columns import InventoryKinds


class Raced(InventoryKinds):
    """Another thread, which counted fewer kinds, finishes right after each thread that counted all of them."""

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name in ("_capacity", "_table") and value.size:
            super().__setattr__(name, value[..., :1])


@pytest.mark.parametrize("kinds", [InventoryKinds(), Raced()])
def test_capacities_are_those_of_all_kinds_whatever_other_threads_store(kinds):
    numbers = kinds.numbers([(total, 0, 1, total, 1, 2.0) for total in (4, 8)])
    assert kinds.capacities()[numbers].tolist() == [8, 16]
    assert kinds.table()[0, numbers].tolist() == [4, 8]
