"""An index has what a map has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.catalog import blocks
from stead.catalog.blocks import IdIndex, TextIndex, Texts, TreeIndex
from stead.domain.provider import Slot

if TYPE_CHECKING:
    from collections.abc import Callable

HASHES: dict[str, Callable[[bytes], int]] = {
    "as it is": blocks.crc32,
    "one for all": lambda _: 7,
    "of the length": len,
}


@pytest.mark.parametrize("hashed", HASHES)
@given(st.lists(st.text(max_size=4), unique=True), st.text(max_size=4))
def test_each_text_has_its_slot_also_if_hashes_are_equal(hashed: str, texts: list[str], other: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "crc32", HASHES[hashed])
        column = Texts.of(["in no index", *texts])
        by_text = TextIndex.of(column, np.arange(1, len(texts) + 1, dtype=np.int32))
        assert dict(by_text.items()) == {text: slot for slot, text in enumerate(texts, 1)}
        assert len(by_text) == len(texts)
        assert [by_text.get(text) for text in texts] == list(range(1, len(texts) + 1))
        if other not in texts:
            assert by_text.get(other) is None


@given(st.lists(st.integers(0, 2**63 - 1), unique=True), st.integers(-1, 2**70))
def test_each_id_has_its_slot(ids: list[int], other: int) -> None:
    by_id = IdIndex.of(np.array(ids, np.int64), np.arange(len(ids), dtype=np.int32))
    assert dict(by_id.items()) == {id_: slot for slot, id_ in enumerate(ids)}
    assert [by_id.get(id_) for id_ in ids] == list(range(len(ids)))
    if other not in ids:
        assert by_id.get(other) is None


@given(st.dictionaries(st.integers(0, 99), st.lists(st.integers(0, 99).map(Slot), min_size=2, max_size=4).map(tuple)))
def test_each_root_has_its_members(trees: dict[int, tuple[Slot, ...]]) -> None:
    by_root = TreeIndex.of(trees)
    assert dict(by_root.items()) == trees
    assert {root: by_root.get(root) for root in range(100) if by_root.get(root)} == trees
    for size in (2, 3, 4):
        roots = [root for root, members in trees.items() if len(members) == size]
        assert by_root.matrix(np.array(roots, np.int64), size).tolist() == [list(trees[root]) for root in roots]
