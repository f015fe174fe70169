"""One provider: reads it with its tree and its allocations, and changes it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from stead.cli.errors import CommandError, Negative
from stead.cli.fetching.trees import EVERY_TREE, TreeFilter, fetch_names, fetch_trees, is_called, references
from stead.cli.forest import walk
from stead.cli.suggestions import no_provider
from stead.client.calls import TREES
from stead.client.errors import Unsupported
from stead.domain.provider import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead import Site
    from stead.cli.forest import Provider

Json = dict[str, Any]

_ROUTE = "/provider_trees"


@dataclass(frozen=True, slots=True)
class Located:
    """A provider and its ancestors, the root first."""

    provider: Provider
    above: tuple[Provider, ...]

    @property
    def path(self) -> list[str]:
        """The names from the root to the provider."""
        return [each.name for each in (*self.above, self.provider)]


def fetch_provider(api: Site, called: str) -> Located:
    """The provider with this UUID or name, and all its descendants. ``name:`` before a name is accepted.

    Raises:
        Negative: it does not exist.
    """
    located = find_provider(api, called)
    if located is None:
        raise no_provider(called, fetch_names(api).values())
    return located


def find_provider(api: Site, called: str, chosen: TreeFilter = EVERY_TREE) -> Located | None:
    """Like :func:`fetch_provider`; None if it does not exist, or its tree does not pass *chosen*."""
    for reference in references(called):
        for top in fetch_trees(api, replace(chosen, provider=reference)):
            by_uuid = {each.uuid: each for each in walk([top])}
            for each in by_uuid.values():
                if is_called(reference, each):
                    above: list[Provider] = []
                    parent = by_uuid.get(each.parent or "")
                    while parent is not None:
                        above.insert(0, parent)
                        parent = by_uuid.get(parent.parent or "")
                    return Located(each, tuple(above))
    return None


def reference_to(api: Site, called: str) -> str:
    """How the API refers to the provider with this UUID or name: a UUID, or ``name:`` and a name. It may not exist."""
    for reference in references(called)[:-1]:
        if _lists(api, uuid=reference):
            return reference
    return references(called)[-1]


def require_named(api: Site, query: str) -> None:
    """Check that the providers exist that a candidate *query* refers to (``in_tree=name:…``).

    Raises:
        Negative: the first that does not exist. For the API, nothing fits in the tree of such a provider.
    """
    for value in (value for key, value in parse_qsl(query) if key.startswith(("in_tree", "in_subtree"))):
        name = value.removeprefix(BY_NAME)
        if name != value:
            if not _lists(api, name=name):
                raise no_provider(name, fetch_names(api).values())
        elif not _lists(api, uuid=value):
            raise Negative(
                f"no resource provider has the uuid {value}"
                + (f"; one has it as its name: {BY_NAME}{value}" if _lists(api, name=value) else "")
            )


def _lists(api: Site, **filters: str) -> bool:
    return bool(api.request("GET", "/resource_providers", **filters)["resource_providers"])


def fetch_allocations(api: Site, provider: Provider) -> dict[str, dict[str, int]]:
    """The amounts per class of each consumer of *provider*, by the consumer's UUID."""
    allocations = api.request("GET", f"/resource_providers/{provider.uuid}/allocations")["allocations"]
    return {consumer: each["resources"] for consumer, each in allocations.items()}


def write_providers(api: Site, records: list[Json], *, dry_run: bool, allow_overcommit: bool = False) -> Json:
    """Make providers match *records* in one transaction, with PUT ``/provider_trees``; returns the response.

    Unknown custom traits and classes are created.

    Raises:
        Refused: nothing was changed.
        CommandError: the server does not support the request.
    """
    options = {"create_names": True, "dry_run": dry_run, "allow_overcommit": allow_overcommit}
    with _requiring_own("PUT /provider_trees"):
        answer: Json = api.request("PUT", _ROUTE, {"provider_trees": [{"providers": records}], **options}, stead=TREES)
    return answer


def set_disabled(api: Site, provider: Provider, disabled: Json | None) -> Json:
    """Disable *provider* with a ``reason`` and ``until``, or enable it with None; returns its new state."""
    with _requiring_own("PATCH /provider_trees/{uuid}"):
        answer: Json = api.request("PATCH", f"{_ROUTE}/{provider.uuid}", {"disabled": disabled}, stead=TREES)
    return answer


def delete_provider(api: Site, provider: Provider) -> None:
    """Delete one provider, which has no providers below it and no allocations."""
    api.request("DELETE", f"/resource_providers/{provider.uuid}")


@contextmanager
def _requiring_own(request: str) -> Iterator[None]:
    """Explain the error of a server that does not support *request*: another Placement service, or an older Stead."""
    try:
        yield
    except Unsupported as error:
        raise CommandError(f"the server has no {request}; this command requires Stead with `stead 1.1`") from error
