"""A provider as JSON text. Since lists are long, the text is written directly, without intermediate objects."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import orjson

from stead.api.versions import V
from stead.catalog.listing import Listing
from stead.process.short_keys import cached_if_short
from stead.process.slices import sliced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stead.api.request import Request
    from stead.api.versions import Microversion
    from stead.catalog.runs import Slots
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
"""Each relation with its first microversion; "self" is the provider, the paths of the others are below it."""


class ProviderForm(NamedTuple):
    """The fields of a provider that an answer shows; equal forms give equal texts."""

    around_uuid: tuple[str, ...]
    """The text of the links, split at each occurrence of the uuid."""
    tells_tree: bool

    @classmethod
    def of(cls, req: Request) -> ProviderForm:
        """The form of answers to *req*; its links include the prefix under which the application is mounted."""
        return _form(req.version, req.root_path)

    def text(self, provider: Provider) -> str:
        """The text of one provider."""
        return self._text(provider.uuid, provider.name, provider.generation, provider.parent, provider.root)

    def texts(self, snapshot: Snapshot, slots: Slots) -> Iterator[bytes]:
        """The encoded texts of the providers at *slots*, in their order, with a comma before each, joined in parts.

        Lets other requests run in between.
        """
        return sliced(snapshot.texts(self, slots, partial(self._made, snapshot)), 1)

    def _made(self, snapshot: Snapshot, slots: Sequence[int]) -> Iterable[bytes]:
        listed = Listing(snapshot, slots)
        columns = listed.uuids(), listed.names(), listed.generations(), listed.parents(), listed.roots()
        return map(str.encode, map(self._text, *columns))

    def _text(self, uuid: str, name: str, generation: int, parent: str | None, root: str) -> str:
        tree = ""
        if self.tells_tree:
            above = "null" if parent is None else f'"{parent}"'
            tree = f',"parent_provider_uuid":{above},"root_provider_uuid":"{root}"'
        return (
            f'{{"uuid":"{uuid}","name":{orjson.dumps(name).decode()},"generation":{generation},'
            f'"links":{uuid.join(self.around_uuid)}{tree}}}'
        )


@cached_if_short(256)  # proxies may send different prefixes
def _form(version: Microversion, prefix: str) -> ProviderForm:
    # A proxy controls the prefix, so it is escaped like any other text.
    path = orjson.dumps(f"{prefix}/resource_providers/").decode().removesuffix('"')
    rels = [rel for rel, since in LINKS.items() if since <= version]
    starts = [f'{{"rel":"{rel}","href":{path}' for rel in rels]
    ends = ['"}' if rel == "self" else f'/{rel}"}}' for rel in rels]
    between = [f"{end},{start}" for end, start in zip(ends[:-1], starts[1:], strict=True)]
    return ProviderForm((f"[{starts[0]}", *between, f"{ends[-1]}]"), version >= V.NESTED_PROVIDERS)
