"""Python's cyclic garbage collector, in commands that read large sites."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def paused_collector() -> Iterator[None]:
    """Do not search for cycles during the block.

    A site of many providers is many small objects without cycles, all needed until the command ends. Each search
    visits all of them and frees none.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
