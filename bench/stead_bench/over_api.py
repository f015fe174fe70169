"""Creates sites through the API of any Placement server, with a few threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from stead_bench.errors import Refused
from stead_bench.tables import portions, require_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stead.topology.site import Description
    from stead_bench.asking import Connection

THREADS = 4
"""Enough to keep a server of a few workers busy."""


def make_names(connection: Connection, descriptions: Iterable[Description]) -> None:
    """Create the custom traits and resource classes of some *descriptions*."""
    traits: set[str] = set()
    classes: set[str] = set()
    for described in descriptions:
        traits |= described.traits
        classes.update(described.inventories)
    for path, names in (("traits", traits), ("resource_classes", classes)):
        for name in sorted(names):
            if name.startswith("CUSTOM_"):
                connection.put(f"/{path}/{name}")


def present(connection: Connection) -> dict[str, str | None]:
    """The uuids of all providers, with their parents' uuids.

    Raises:
        BenchError: the server has providers that are not from a benchmark, so it is in use.
    """
    listed = connection.read("/resource_providers")["resource_providers"]
    require_ours(provider["name"] for provider in listed)
    return {provider["uuid"]: provider["parent_provider_uuid"] for provider in listed}


class Crew:
    """A few threads, each with its own connection."""

    def __init__(self, connect: Callable[[], Connection], threads: int = THREADS) -> None:
        self._own = threading.local()
        self._connect = connect
        self._connections: list[Connection] = []
        self._threads = threads

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()

    def load(self, descriptions: Iterable[Description], loaded: Callable[[int], None]) -> None:
        """Create *descriptions*, each tree in one thread; *loaded* gets the number of providers of each tree.

        Raises:
            Refused: the server rejected one of them.
        """

        def make(tree: list[Description]) -> None:
            connection = self._connection()
            uuids = {described.name: described.uuid for described in tree}
            for described in tree:
                create(connection, described, None if described.parent is None else uuids[described.parent])
            loaded(len(tree))

        self._each(make, portions(descriptions, 1))

    def remove(self, uuids: Iterable[str], removed: Callable[[int], None]) -> None:
        """Delete providers without allocations; their children must come earlier in *uuids*."""

        def delete(uuid: str) -> None:
            try:
                self._connection().delete(f"/resource_providers/{uuid}")
            except Refused as refused:
                if refused.status != HTTPStatus.NOT_FOUND:
                    raise
            removed(1)

        self._each(delete, uuids)

    def _each(self, work: Callable[[Any], None], pieces: Iterable[Any]) -> None:
        with ThreadPoolExecutor(self._threads) as pool:
            for _ in pool.map(work, pieces):
                pass

    def _connection(self) -> Connection:
        if not hasattr(self._own, "connection"):
            self._own.connection = self._connect()
            self._connections.append(self._own.connection)
        connection: Connection = self._own.connection
        return connection


def create(connection: Connection, described: Description, parent: str | None) -> None:
    """Create one provider, below *parent* (its uuid).

    Raises:
        Refused: the server rejected it.
    """
    body = {"name": described.name, "uuid": described.uuid}
    if parent is not None:
        body["parent_provider_uuid"] = parent
    generation = connection.post("/resource_providers", body)["generation"]
    parts: list[tuple[str, Any]] = []
    if described.inventories:
        parts.append(("inventories", {name: asdict(inventory) for name, inventory in described.inventories.items()}))
    if described.traits:
        parts.append(("traits", sorted(described.traits)))
    if described.aggregates:
        parts.append(("aggregates", sorted(described.aggregates)))
    for part, value in parts:
        put = {part: value, "resource_provider_generation": generation}
        answer = connection.put(f"/resource_providers/{described.uuid}/{part}", put)
        generation = answer["resource_provider_generation"]


def waves(parents: dict[str, str | None], leaving: set[str]) -> list[list[str]]:
    """The providers *leaving* in a valid order of deletion: those without children, then their parents, and so on."""
    depth = {uuid: _depth(uuid, parents) for uuid in leaving}
    levels = sorted(set(depth.values()), reverse=True)
    return [[uuid for uuid in sorted(leaving) if depth[uuid] == level] for level in levels]


def _depth(uuid: str, parents: dict[str, str | None]) -> int:
    depth, above = 0, parents[uuid]
    while above is not None:
        depth, above = depth + 1, parents[above]
    return depth
