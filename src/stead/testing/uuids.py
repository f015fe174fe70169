"""Uuids that are the same in every run."""

from __future__ import annotations

import random
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator

# An import of the name binds it in its module, so each such module needs a patch of its own.
_MAKERS = ("uuid.uuid4", "stead.api.resources.resource_providers.uuid4", "stead.api.resources.provider_trees.uuid4")
"""What makes uuids of consumers and of providers without one."""


@contextmanager
def deterministic_uuids(seed: int = 0) -> Iterator[None]:
    """Make ``uuid.uuid4`` of this process return the same uuids in every run, also in the Placement that it runs."""
    numbers = random.Random(seed)

    def make() -> uuid.UUID:
        return uuid.UUID(int=numbers.getrandbits(128), version=4)

    patches = [patch(maker, make) for maker in _MAKERS]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()
