"""Columns in blocks hold what a plain list would, and a change leaves those that others hold as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.catalog.blocks import Blocks, Directory, Sparse, ValueTable
from stead.catalog.columns import Masks
from tests.rooms.catalog.small_blocks import small_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FILL = -7
writes = st.lists(st.dictionaries(st.integers(0, 11), st.integers(-3, 3), min_size=1), max_size=6)


def written(column: Blocks[Any], values: dict[int, int], size: int) -> Blocks[Any]:
    slots = sorted(values)
    return column.replaced(np.array(slots, np.int64), [values[slot] for slot in slots], size)


@settings(deadline=None)
@given(writes, st.lists(st.integers(0, 11), min_size=1))
def test_a_column_is_what_a_list_would_be(steps: Sequence[dict[int, int]], slots: list[int]) -> None:
    with small_blocks():
        column, plain = Blocks.none(np.int64, FILL), []
        history = []
        for values in steps:
            size = max(len(plain), max(values) + 1)
            plain = [values.get(slot, plain[slot] if slot < len(plain) else FILL) for slot in range(size)]
            column = written(column, values, size)
            history.append((column, plain))
        for old, expected in history:
            assert [old[slot] for slot in range(old.size)] == expected
            inside = [slot for slot in slots if slot < old.size]
            assert old.at(np.array(inside, np.int64)).tolist() == [expected[slot] for slot in inside]
            assert old.whole.tolist() == expected


def test_a_change_shares_the_blocks_that_it_does_not_concern() -> None:
    with small_blocks():
        before = written(Blocks.none(np.int64, 0), dict.fromkeys(range(6), 1), 6)
        after = written(before, {3: 2}, 6)
        assert [new is old for new, old in zip(after.blocks, before.blocks, strict=True)] == [True, False, True]
        assert [new == old for new, old in zip(after.serials, before.serials, strict=True)] == [True, False, True]


def test_a_change_to_what_is_there_already_is_none() -> None:
    column = written(Blocks.none(np.int64, 0), {0: 1, 1: 2}, 2)
    assert written(column, {0: 1, 1: 2}, 2) is column


def test_blocks_in_which_nobody_has_anything_take_no_memory() -> None:
    with small_blocks():
        first, second = (written(Blocks.none(np.int32, 0), {}, 8) for _ in range(2))
        assert all(np.shares_memory(mine, theirs) for mine, theirs in zip(first.blocks, second.blocks, strict=True))
        with pytest.raises(ValueError, match="read-only"):
            first.blocks[0][0] = 1


def test_a_mask_is_worked_out_again_for_changed_blocks_only() -> None:
    seen: list[list[int]] = []

    def odd(block: Any) -> Any:
        seen.append(block.tolist())
        return block % 2 == 1

    with small_blocks():
        masks = Masks()
        before = written(Blocks.none(np.int64, 0), {0: 1, 1: 2, 2: 3, 3: 4, 4: 5}, 5)
        assert masks.get("odd", (before,), odd).tolist() == [True, False, True, False, True]
        assert masks.get("odd", (before,), odd).tolist() == [True, False, True, False, True]
        assert seen == [[1, 2], [3, 4], [5]]
        after = written(before, {3: 7}, 6)
        assert masks.get("odd", (after,), odd).tolist() == [True, False, True, True, True, False]
        assert seen[3:] == [[3, 7], [5, 0]]
        assert masks.get("odd", (before,), odd).tolist() == [True, False, True, False, True]


def test_masks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stead.catalog.columns.MOST_BYTES_OF_MASKS", 10)
    masks, column = Masks(), written(Blocks.none(np.int64, 0), dict.fromkeys(range(4), 1), 4)
    asked: list[int] = []

    def ask(number: int) -> None:
        def meets(block: Any) -> Any:
            asked.append(number)
            return block == number

        masks.get(number, (column,), meets)

    for number in (1, 2, 3, 3, 2, 1):
        ask(number)
    assert asked == [1, 2, 3, 1]


class Map(dict[int, int]):
    """An index for tests."""

    def items(self) -> Iterator[tuple[int, int]]:  # type: ignore[override]  # an index is read once
        return iter(dict(self).items())


@given(
    st.dictionaries(st.integers(0, 5000), st.integers()),
    st.lists(st.tuples(st.sets(st.integers(0, 5)), st.dictionaries(st.integers(0, 5000), st.integers())), max_size=5),
)
def test_a_directory_is_what_a_dictionary_would_be(
    indexed: dict[int, int], steps: Sequence[tuple[set[int], dict[int, int]]]
) -> None:
    directory: Directory[int, int] = Directory(Map(indexed))
    plain = dict(indexed)
    for gone, new in steps:
        leaving = [key for number, key in enumerate(plain) if number in gone]
        before, old = directory, dict(plain)
        directory = directory.replaced(leaving, new)
        plain = {key: value for key, value in plain.items() if key not in leaving} | new
        assert len(directory) == len(plain)
        assert all(directory.get(key) == value for key, value in plain.items())
        assert dict(directory.items()) == plain
        assert all(directory.get(key) is None for key in leaving if key not in plain)
        assert len(before) == len(old)
        assert all(before.get(key) == value for key, value in old.items())


def test_values_that_nobody_has_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stead.catalog.blocks._SPARE", 0)
    values: ValueTable[str] = ValueTable("nothing")
    column = Blocks.none(np.int32, 0).replaced(np.arange(3), values.numbers(["a", "b", "c"]), 3)
    column = column.replaced(np.arange(3), values.numbers(["d", "b", "e"]), 3)
    assert values.compacted(column) == (values, column)
    # Three are in use, so the next look for others is due after three more.
    for value in "fgh":
        column = column.replaced(np.array([2]), values.numbers([value]), 3)
        assert values.compacted(column) == (values, column)
    column = column.replaced(np.array([2]), values.numbers(["i"]), 3)
    fresh, renumbered = values.compacted(column)
    assert fresh.values == ["nothing", "b", "d", "i"]
    assert [fresh.values[number] for number in renumbered.whole] == ["d", "b", "i"]


@given(st.data())
def test_a_column_of_few_values_does_what_one_of_many_does(data: st.DataObject) -> None:
    """Also if *fill* is among the values that it was made with, as in columns that share their slots."""
    size = data.draw(st.integers(1, 200))
    slots = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1)))), np.int64)
    values = np.array([data.draw(st.integers(-1, 2)) for _ in slots], np.int64)
    sparse = Sparse(slots, values, size, -1, np.dtype(np.int64))
    plain = Blocks.none(np.int64, -1).replaced(slots, values, size)
    for _ in range(data.draw(st.integers(0, 4))):
        size += data.draw(st.integers(0, 3))
        changed = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=80))), np.int64)
        new = [data.draw(st.integers(-1, 2)) for _ in changed]
        sparse, plain = sparse.replaced(changed, new, size), plain.replaced(changed, new, size)
        asked = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=100)), np.int64)
        assert sparse.size == plain.size == size
        assert sparse.whole.tolist() == plain.whole.tolist()
        assert sparse.at(asked).tolist() == plain.at(asked).tolist() == sparse.only(asked).whole.tolist()
        assert [sparse[slot] for slot in asked.tolist()] == [plain[slot] for slot in asked.tolist()]
        assert set(sparse.distinct().tolist()) | {-1} == set(plain.distinct().tolist()) | {-1}
        assert (np.diff(sparse.slots) > 0).all()
