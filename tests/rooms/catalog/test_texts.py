"""A column of texts has what a plain list has, and a change leaves older columns as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.catalog import blocks as texts_module
from stead.catalog.blocks import Texts
from tests.rooms.catalog.small_blocks import small_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

contents = st.sampled_from(["", "a", "bb", "host-1", "Zürich", "東京", "\0", "\ud800", "x" * 40])
"""Texts of ASCII, of more bytes than characters, and what only a damaged database has."""

writes = st.lists(st.dictionaries(st.integers(0, 11), contents, min_size=1), max_size=6)


def written(column: Texts, values: dict[int, str], size: int) -> Texts:
    slots = sorted(values)
    return column.replaced(np.array(slots, np.int64), [values[slot] for slot in slots], size)


@settings(deadline=None)
@given(writes, st.integers(0, 3), st.lists(st.integers(0, 11), max_size=30))
def test_a_column_is_what_a_list_would_be(steps: Sequence[dict[int, str]], few: int, asked: list[int]) -> None:
    with small_blocks(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts_module, "_FEW", few)
        column, plain = Texts(), [""] * 12
        for step in steps:
            before, old = column, list(plain)
            column = written(column, step, 12)
            for slot, text in step.items():
                plain[slot] = text
            assert [column[slot] for slot in range(12)] == plain
            assert column.at(np.array(asked, np.int64)).tolist() == [plain[slot] for slot in asked]
            assert column.only(np.arange(12)).at(np.arange(12)).tolist() == plain
            assert (column is before) == (len(before) == 12 and plain == old)
            assert before.at(np.arange(len(before))).tolist() == old[: len(before)]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["abc", "def", "gh", "ü1"]), min_size=1, max_size=9), st.data())
def test_a_matrix_has_the_bytes_of_texts_of_one_length(values: list[str], data: st.DataObject) -> None:
    asked = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1))
    with small_blocks():
        matrix = Texts.of(values).matrix(np.array(asked)[:, None], 3)
    chosen = [values[slot].encode() for slot in asked]
    if any(len(text) != 3 for text in chosen):
        assert matrix is None
    else:
        assert matrix is not None
        assert matrix.shape == (len(asked), 1, 3)
        assert matrix.tobytes() == b"".join(chosen)


def test_a_column_of_several_dimensions_has_their_shape() -> None:
    slots = np.array([[2, 0], [1, 1]])
    assert Texts.of(["a", "b", "c"]).at(slots).tolist() == [["c", "a"], ["b", "b"]]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["", "a", "b\0", "ü1", "\ud800", "\ue000", "uuid-of-1", "uuid-of-2", "x" * 40]))
    | st.lists(st.text("ab1", min_size=9, max_size=9)),
    st.data(),
)
def test_heads_are_the_first_bytes_as_numbers(values: list[str], data: st.DataObject) -> None:
    asked = data.draw(st.lists(st.integers(0, len(values) - 1))) if values else []
    with small_blocks():
        heads = Texts.of(values).heads(np.array(asked, np.int64)).tolist()
    chosen = [values[slot].encode("utf-8", "surrogatepass")[:8] for slot in asked]
    assert heads == [int.from_bytes(head.ljust(8, b"\0"), "big") for head in chosen]
