"""One of many clients that claim, move and release at random, and remember what they were told."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, TypedDict

from stead.domain.errors import AllocationRefused
from tests.rooms.store.books import fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.rooms.store.books import Amounts, Books


class Told(TypedDict):
    """What a client was told: what its consumers hold, how often providers were taken from, how often it wrote."""

    held: dict[str, Amounts]
    taken: dict[str, int]
    writes: int
    refused: int


def storm(books: Books, seed: int, providers: Sequence[str], rounds: int) -> Told:
    rng = random.Random(seed)
    allocations: dict[str, Amounts] = {}
    generations: dict[str, int] = {}
    taken: Counter[str] = Counter()
    writes = refused = 0
    for _ in range(rounds):
        if allocations and rng.random() < 0.3:
            consumer = rng.choice(sorted(allocations))
            books.release(consumer)
            writes += 1
            del allocations[consumer], generations[consumer]
            continue
        consumer = rng.choice(sorted(allocations)) if allocations and rng.random() < 0.4 else fresh_uuid()
        amounts = {uuid: {"VCPU": rng.randint(1, 2)} for uuid in rng.sample(providers, rng.randint(1, 3))}
        try:
            books.claim(consumer, amounts, generations.get(consumer))
        except AllocationRefused:
            refused += 1
            continue
        writes += 1
        taken.update(amounts.keys())
        allocations[consumer] = amounts
        generations[consumer] = generations.get(consumer, 0) + 1
    return Told(held=allocations, taken=dict(taken), writes=writes, refused=refused)
