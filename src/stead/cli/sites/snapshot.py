"""A site as one moment of the server shows it, read in pages of whole trees.

Source: "GET /provider_trees", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stead.cli.errors import Negative
from stead.cli.sites.documents import next_page
from stead.client.calls import OWN, TREES
from stead.domain.inventory import Inventory
from stead.topology.site import Description, Site, site_of

if TYPE_CHECKING:
    from stead.cli.sites.providers import Watcher

ATTEMPTS = 10
"""How often a site is read, while other clients change it."""

_FIRST = "/provider_trees?limit=10000&fields=name,parent_provider_uuid,inventories,traits,aggregates"


@dataclass(frozen=True, slots=True)
class Holder:
    """A consumer; ``allocations`` are amounts by the provider's name and the class."""

    uuid: str
    project: str
    user: str
    consumer_type: str
    allocations: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class SiteSnapshot:
    """A site at one moment; ``holders`` are the consumers, in the order of their uuids, if they were read."""

    site: Site
    holders: list[Holder] | None = None


def read_snapshot(api: Any, watcher: Watcher, *, allocations: bool) -> SiteSnapshot:
    """All providers, and all consumers if *allocations*.

    The tag of a page tells its moment. If all pages have one tag, they show one moment. Otherwise the site is read
    again: what two readings in a row show alike was so between them, whatever was claimed meanwhile.

    Raises:
        Negative: the site changed during every attempt.
    """
    before: Any = None
    for _ in range(ATTEMPTS):
        records, tags = _read_trees(api, watcher)
        consumers = _read_consumers(api) if allocations else None
        if allocations:
            # After the consumers: only equal tags on both sides prove that they are of the same moment.
            tags.add(_tagged(api, "/provider_trees?limit=1&fields=name&depth=0")[1])
        now = records, consumers
        if len(tags) == 1 or now == before:
            names = {record["uuid"]: record["name"] for record in records}
            holders = None if consumers is None else [_holder(consumer, names) for consumer in consumers]
            return SiteSnapshot(site_of(_description(record, names) for record in records), holders)
        before = now
    raise Negative(f"other clients changed the site during each of {ATTEMPTS} attempts to read it")


def _read_trees(api: Any, watcher: Watcher) -> tuple[list[Any], set[str]]:
    """The providers of all pages, and the tags of the pages."""
    records: list[Any] = []
    tags: set[str] = set()
    path: str | None = _FIRST
    while path is not None:
        page, tag = _tagged(api, path)
        if not records:
            watcher.begin("reading", page["tree_count"])
        for tree in page["provider_trees"]:
            records += tree["providers"]
            watcher.advance()
        tags.add(tag)
        path = next_page(page)
    return records, tags


def _tagged(api: Any, path: str) -> tuple[Any, str]:
    """A page and its tag."""
    reply = api.response("GET", path, stead=TREES)
    return reply.json(), reply.headers.get("etag", "")


def _read_consumers(api: Any) -> list[Any]:
    consumers: list[Any] = []
    path: str | None = "/consumers"
    while path is not None:
        page = api.request("GET", path, stead=OWN)
        consumers += page["consumers"]
        following = next_page(page)
        path = following and following.replace("/provider_trees", "/consumers", 1)
    return consumers


def _description(record: Any, names: dict[str, str]) -> Description:
    parent = record["parent_provider_uuid"]
    return Description(
        name=record["name"],
        uuid=record["uuid"],
        parent=None if parent is None else names[parent],
        inventories={name: Inventory.of(inventory) for name, inventory in record["inventories"].items()},
        traits=frozenset(record["traits"]),
        aggregates=frozenset(record["aggregates"]),
    )


def _holder(consumer: Any, names: dict[str, str]) -> Holder:
    allocations = {
        names.get(uuid, uuid): allocation["resources"] for uuid, allocation in consumer["allocations"].items()
    }
    return Holder(consumer["uuid"], consumer["project_id"], consumer["user_id"], consumer["consumer_type"], allocations)
