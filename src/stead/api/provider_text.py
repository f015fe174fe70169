"""A provider as the JSON text that answers show. Lists are long, so it is written at once, without a value between."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import orjson

from stead.api.versions import V
from stead.catalog.forest import NOBODY
from stead.process.short_keys import cached_if_short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.api.request import Request
    from stead.api.versions import Microversion
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Provider

FIELDS = {
    "uuid": V.INITIAL,
    "name": V.INITIAL,
    "generation": V.INITIAL,
    "links": V.INITIAL,
    "parent_provider_uuid": V.NESTED_PROVIDERS,
    "root_provider_uuid": V.NESTED_PROVIDERS,
}
"""Each key with its first microversion."""

LINKS = {
    "self": V.INITIAL,
    "inventories": V.INITIAL,
    "usages": V.INITIAL,
    "aggregates": V.AGGREGATES,
    "traits": V.TRAITS,
    "allocations": V.ALLOCATIONS_LINK,
}
"""Each relation with its first microversion; "self" is the provider, the others lie below it."""


class ProviderForm(NamedTuple):
    """What an answer shows of providers; equal forms give equal texts."""

    around_uuid: tuple[str, ...]
    """The text of the links, cut at every place where the uuid stands."""
    tells_tree: bool

    @classmethod
    def of(cls, req: Request) -> ProviderForm:
        """The form of answers to *req*; links have the prefix under which the application is mounted."""
        return _form(req.version, req.root_path)

    def text(self, provider: Provider) -> str:
        """One provider."""
        return self._text(provider.uuid, provider.name, provider.generation, provider.parent, provider.root)

    def texts(self, snapshot: Snapshot, slots: Sequence[int]) -> list[str]:
        """The providers at some slots, in their order."""
        return snapshot.texts(self, np.asarray(slots, np.int64), partial(self._made, snapshot))

    def _made(self, snapshot: Snapshot, slots: Sequence[int]) -> Iterable[str]:
        places, uuids = np.asarray(slots, np.int64), snapshot.identities.uuids
        parents = snapshot.forest.parent.at(places).tolist()
        return map(
            self._text,
            uuids.at(places).tolist(),
            snapshot.identities.names.at(places).tolist(),
            snapshot.generations.at(places).tolist(),
            [None if parent == NOBODY else uuids[parent] for parent in parents],
            uuids.at(snapshot.forest.root.at(places)).tolist(),
        )

    def _text(self, uuid: str, name: str, generation: int, parent: str | None, root: str) -> str:
        tree = ""
        if self.tells_tree:
            above = "null" if parent is None else f'"{parent}"'
            tree = f',"parent_provider_uuid":{above},"root_provider_uuid":"{root}"'
        return (
            f'{{"uuid":"{uuid}","name":{orjson.dumps(name).decode()},"generation":{generation},'
            f'"links":{uuid.join(self.around_uuid)}{tree}}}'
        )


@cached_if_short(256)  # proxies may put a prefix of their own before each request
def _form(version: Microversion, prefix: str) -> ProviderForm:
    path = orjson.dumps(f"{prefix}/resource_providers/").decode().removesuffix('"')
    rels = [rel for rel, since in LINKS.items() if since <= version]
    starts = [f'{{"rel":"{rel}","href":{path}' for rel in rels]
    ends = ['"}' if rel == "self" else f'/{rel}"}}' for rel in rels]
    between = [f"{end},{start}" for end, start in zip(ends[:-1], starts[1:], strict=True)]
    return ProviderForm((f"[{starts[0]}", *between, f"{ends[-1]}]"), version >= V.NESTED_PROVIDERS)
