"""A deployment with an old database, as its operator's commands meet it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import sqlalchemy as sa

from stead.store.protocol.store import Store
from stead.store.schema import schema
from stead.store.sql.dialects import Database
from tests.rooms.store.schema.test_schema import upgrade_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OLD, HEAD = "b4ed3a175331", "a082b8bb98d0"


class Deployment:
    """A configuration file, and the database that it names."""

    def __init__(self, directory: Path, url: str) -> None:
        self.url = url
        self.file = directory / "placement.conf"
        self.configure("")
        self.store = Store(Database(url))

    def configure(self, more: str) -> None:
        self.file.write_text(f"[placement_database]\nconnection = {self.url}\n{more}")

    def at(self, revision: str | None) -> Deployment:
        """Make the tables as they were at this revision; at the head with Stead's own."""
        if revision == HEAD:
            schema.upgrade(self.store.writer)
        elif revision is not None:
            upgrade_to(self.store.writer, revision)
        return self

    def execute(self, statement: str, rows: list[dict[str, Any]]) -> None:
        if rows:
            with self.store.writer.begin() as connection:
                connection.execute(sa.text(statement), rows)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.store.reader.begin() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]

    def scalar(self, query: str) -> Any:
        return self.rows(query)[0][0]

    def add_providers_without_root(self, count: int) -> None:
        self.execute(
            "INSERT INTO resource_providers (uuid, name, generation) VALUES (:uuid, :uuid, 0)",
            [{"uuid": str(uuid4())} for _ in range(count)],
        )

    def add_allocations_without_consumer(self, consumers: int) -> None:
        """Two allocations for each, so that counting rows is not counting consumers."""
        uuids = [str(uuid4()) for _ in range(consumers)]
        self.execute(
            "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)"
            " VALUES (1, :uuid, :class_id, 1)",
            [{"uuid": uuid, "class_id": class_id} for uuid in uuids for class_id in (0, 1)],
        )


def exit_code(run: Callable[[list[str]], int], arguments: list[str]) -> int:
    """What the process would end with."""
    try:
        return run(arguments)
    except SystemExit as end:
        return int(str(end.code))
