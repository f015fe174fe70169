"""What planned changes would lead to, as POST ``/whatif`` tells it."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from stead.cli.errors import CommandError
from stead.cli.fetching.providers import fetch_provider
from stead.cli.fetching.trees import TreeFilter, fetch_names, fetch_trees, is_pattern
from stead.cli.forest import walk
from stead.cli.suggestions import no_provider
from stead.client.calls import TREES
from stead.client.errors import NotFound, Unsupported
from stead.client.what_if import SetInventory, WhatIf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead import Site
    from stead.cli.arguments import InventoryText
    from stead.client.what_if import PlannedChange

Json = dict[str, Any]

_MOST_CHANGES = 1_000
_NO_PROVIDER = re.compile(r"changes\[\d+\]\.provider: no provider (?:name:)?(.*)")


def ask_what_if(api: Site, changes: Sequence[PlannedChange], ask: Json) -> WhatIf:
    """The answers to the questions of *ask* after *changes*.

    Raises:
        Negative: a provider does not exist.
        CommandError: the server does not support the request.
    """
    body = {"changes": [change.record() for change in changes], "ask": ask}
    try:
        reply = api.response("POST", "/whatif", body, stead=TREES)
    except Unsupported as error:
        raise CommandError("the server has no POST /whatif; this command requires Stead with `stead 1.1`") from error
    except NotFound as error:
        if match := _NO_PROVIDER.match(error.detail):
            raise no_provider(match[1], fetch_names(api).values()) from error
        raise
    return WhatIf(reply.json(), is_complete="stead-incomplete" not in reply.headers)


def inventory_changes(api: Site, texts: Sequence[InventoryText]) -> list[SetInventory]:
    """The changes of inventories: one for each provider and class, with all its fields.

    Raises:
        Negative: a provider does not exist.
        CommandError: no provider has the class, or they are too many.
    """
    fields: dict[tuple[str, str], dict[str, int | float]] = {}
    for text in texts:
        for provider in _providers(api, text):
            fields.setdefault((provider, text.resource_class), {})[text.field] = text.value
    if len(fields) > _MOST_CHANGES:
        raise CommandError(f"{len(fields):,} inventories would change; a request can change {_MOST_CHANGES:,}")
    return [SetInventory(provider, name, **values) for (provider, name), values in fields.items()]  # type: ignore[arg-type]  # the keys are fields of it


def _providers(api: Site, text: InventoryText) -> list[str]:
    """The UUIDs of the provider that *text* names, or of all with the class whose names match."""
    if text.providers is not None and not is_pattern(text.providers):
        return [fetch_provider(api, text.providers).provider.uuid]
    trees = fetch_trees(api, TreeFilter(name=text.providers))
    matching = [
        provider.uuid
        for provider in walk(trees)
        if text.resource_class in provider.inventories and fnmatchcase(provider.name, text.providers or "*")
    ]
    if not matching:
        raise CommandError(
            f"no provider{'' if text.providers is None else f' {text.providers}'} has {text.resource_class}"
        )
    return matching
