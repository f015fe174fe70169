"""A claim between two timed requests, so that no cached answer is still valid."""

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
"""A prime: successive claims use providers that are far apart."""


def body(allocations: dict[str, dict[str, int]]) -> dict[str, object]:
    """The body of a new consumer's claim of *allocations* (amounts by class, by provider); from microversion 1.38."""
    return {
        "allocations": {provider: {"resources": resources} for provider, resources in allocations.items()},
        "project_id": "bench",
        "user_id": "bench",
        "consumer_generation": None,
        "consumer_type": "BENCH",
    }


@dataclass
class Claims:
    """Claims one unit from one provider after the other, and releases it at the next claim.

    Attributes:
        roomy: providers, each with a class in which one unit more or less changes only the used amount in answers.
        salt: makes the consumers different from those of other servers and runs.
    """

    connection: Connection
    roomy: Sequence[tuple[str, str]]
    salt: str
    _number: int = 0
    _held: list[str] = field(default_factory=list)

    def turn(self) -> None:
        """Claim from the next provider, and release the previous claim.

        Raises:
            Refused: the server rejected the claim.
            Overdue: it did not answer; a claim that it made nevertheless is released with the others.
        """
        provider, resource_class = self.roomy[self._number * STRIDE % len(self.roomy)]
        consumer = str(uuid5(SPACE, f"{self.salt}/{self._number}"))
        self._number += 1
        before = self._held.copy()
        self._held.append(consumer)
        self.connection.put(f"/allocations/{consumer}", body({provider: {resource_class: 1}}))
        self._release(before)

    def release(self) -> None:
        """Release all present claims."""
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
