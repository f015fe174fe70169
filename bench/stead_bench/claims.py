"""A claim between two timed requests, so that nothing that was answered before is still true."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from uuid import uuid5

from stead_bench.errors import Refused
from stead_bench.sites import SPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead_bench.asking import Connection

STRIDE = 7919
"""A prime: the providers that are claimed from one after the other are far from each other."""


def body(allocations: dict[str, dict[str, int]]) -> dict[str, object]:
    """What a new consumer sends to claim *allocations* (amounts by class, by provider); from microversion 1.38."""
    return {
        "allocations": {provider: {"resources": resources} for provider, resources in allocations.items()},
        "project_id": "bench",
        "user_id": "bench",
        "consumer_generation": None,
        "consumer_type": "BENCH",
    }


@dataclass
class Claims:
    """Claims one unit from one provider after the other, and gives it back at the next claim.

    Attributes:
        roomy: providers, with a class of which a unit more or less changes no answer but in the amount used.
        salt: what makes the consumers different from those of another server or run.
    """

    connection: Connection
    roomy: Sequence[tuple[str, str]]
    salt: str
    _number: int = 0
    _held: list[str] = field(default_factory=list)

    def turn(self) -> None:
        """Claim from the next provider, and release what was claimed before.

        Raises:
            Refused: the server did not take it.
            Overdue: it did not answer; what it may have taken is released with the rest.
        """
        provider, resource_class = self.roomy[self._number * STRIDE % len(self.roomy)]
        consumer = str(uuid5(SPACE, f"{self.salt}/{self._number}"))
        self._number += 1
        before = self._held.copy()
        self._held.append(consumer)
        self.connection.put(f"/allocations/{consumer}", body({provider: {resource_class: 1}}))
        self._release(before)

    def release(self) -> None:
        """Give back what is held."""
        self._release(self._held.copy())
        self.connection.close()

    def _release(self, consumers: Sequence[str]) -> None:
        for consumer in consumers:
            try:
                self.connection.delete(f"/allocations/{consumer}")
            except Refused as refused:
                if refused.status != HTTPStatus.NOT_FOUND:
                    raise
            self._held.remove(consumer)
