"""Columns in blocks of two slots, so that small forests have many of them, and common classes beside rare ones."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from stead.catalog import blocks, columns, stored

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def small_blocks() -> Iterator[None]:
    blocks._constant.cache_clear()
    with (
        patch.object(blocks, "_SHIFT", 1),
        patch.object(blocks, "BLOCK", 2),
        patch.object(blocks, "_FEW", 3),
        patch.object(blocks, "_FEW_CHANGED", 2),
        patch.object(columns, "_FEW", 0),
        patch.object(columns, "_COMMON", 1),
        patch.object(columns, "_RARE", 2),
        patch.object(columns, "BLOCK", 2),
        patch.object(stored, "BLOCK", 2),
        patch.object(blocks, "BLOCK", 2),
        patch.object(blocks, "_FEW", 1),
    ):
        yield
    blocks._constant.cache_clear()


class InSmallBlocks:
    """Mixed into a state machine, it runs that with small blocks."""

    def __init__(self) -> None:
        self._small_blocks = small_blocks()
        self._small_blocks.__enter__()
        super().__init__()

    def teardown(self) -> None:
        super().teardown()  # type: ignore[misc]  # that of the state machine
        self._small_blocks.__exit__(None, None, None)
