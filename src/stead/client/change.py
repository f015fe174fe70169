"""Changes of a site, as :meth:`Site.watch` returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.client.amounts import Json

CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened, as :meth:`Site.watch` tells it.

    Attributes:
        kind: ``provider`` or ``consumer`` changed; ``heartbeat``: nothing did for a while; ``start over``: some changes
            are lost, so everything must be read again.
        uuid: of the provider or consumer; empty for other kinds.
        generation: its present one; None if it does not exist any more.
        token: with ``watch(since=token)``, watching continues after this change and repeats at most its neighbours.
    """

    kind: Literal["provider", "consumer", "heartbeat", "start over"]
    token: str
    uuid: str = ""
    generation: int | None = None

    @property
    def is_deletion(self) -> bool:
        """Whether the provider or consumer does not exist any more."""
        return bool(self.uuid) and self.generation is None


def changes_of(body: Json, before: str) -> Iterator[Change]:
    """The changes of a response of GET ``/changes`` to the token *before*, which all but the last carry."""
    kinds: tuple[tuple[Literal["provider", "consumer"], str], ...] = (
        ("provider", "providers"),
        ("consumer", "consumers"),
    )
    records = [(kind, record) for kind, key in kinds for record in body[key]]
    for number, (kind, record) in enumerate(records, 1):
        token = body["token"] if number == len(records) else before
        yield Change(kind, token, record["uuid"], record["generation"])
