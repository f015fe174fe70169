"""What is fuzzed: an application in this process on a database of its own, and how to see whether that changed."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead import application
from stead.config import load
from stead.domain.provider import MAX_FLOAT
from stead.store.audit.checks import Fault, audit
from stead.store.tables import metadata
from tests.conftest import write_configuration
from tests.system.api.client import Api, holding, wsgi_door
from tests.system.fuzz.words import AGGREGATES, CLASSES, CONSUMERS, PROVIDERS, TRAITS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from wsgiref.types import WSGIApplication

NAMES = ("projects", "users", "consumer_types", "placement_aggregates")
"""Tables of names, which a request may leave there though it is refused."""

EVERYTHING_ON = """\
[oslo_middleware]
enable_proxy_headers_parsing = true
[cors]
allowed_origin = https://dash.example
allow_headers = X-Auth-Token
[stead]
compress_responses = true
"""


class Site:
    """An application with a small site in it, an API that is used as it should be, and the database beside both."""

    def __init__(self, application: WSGIApplication, url: str) -> None:
        self.application = application
        self.door = wsgi_door(application)
        self.api = Api(self.door)
        self._engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        self.connection = self._engine.connect()

    def close(self) -> None:
        self.connection.close()

    def digest(self) -> tuple[Any, ...]:
        """A few figures of every row, of which some change with whatever is written, but for names alone."""
        self._cursor.execute(self._figures)
        return tuple(self._cursor.fetchone())

    @cached_property
    def _cursor(self) -> Any:
        """The driver's own: this is asked before and after each of a hundred thousand requests."""
        return self.connection.connection.cursor()

    @cached_property
    def _figures(self) -> str:
        kept = [table for table in metadata.sorted_tables if table.name not in (*NAMES, "stead_clock")]
        first, *others = map(_figures_of, kept)
        joined: sa.FromClause = first
        for other in others:
            joined = joined.join(other, sa.true())
        every = sa.select(*first.c, *(figure for other in others for figure in other.c)).select_from(joined)
        return str(every.compile(self._engine, compile_kwargs={"literal_binds": True}))

    def faults(self) -> list[str]:
        """What an audit of the books finds; inventories may be shrunk below what is used of them."""
        found = audit(self.connection, lambda _done, _total: None)
        return [
            f"{finding.fault.slug}: {finding.subject} {finding.detail}"
            for finding in found
            if finding.fault is not Fault.OVERCOMMITTED
        ]

    def generation(self, uuid: str) -> int | None:
        """That of a provider, or of a consumer; None if there is no such thing."""
        if uuid in PROVIDERS:
            answer = self.api.get(f"/resource_providers/{uuid}")
            return answer.generation if answer.status == 200 else None
        held: int | None = self.api.get(f"/allocations/{uuid}").json.get("consumer_generation")
        return held


def _figures_of(table: sa.Table) -> sa.Subquery:
    figures: list[sa.ColumnElement[Any]] = [sa.func.count().label(f"{table.name}_rows")]
    for column in table.columns:
        if isinstance(column.type, sa.Integer):
            figure = sa.func.sum(sa.cast(column, sa.Numeric(38, 0)))
        elif isinstance(column.type, sa.Float):
            figure = sa.func.sum(column / MAX_FLOAT)
        elif isinstance(column.type, sa.String):
            figure = sa.func.sum(sa.func.length(column))
        else:
            figure = sa.func.max(column)
        figures.append(figure.label(f"{table.name}_{column.name}"))
    return sa.select(*figures).select_from(table).subquery(f"of_{table.name}")


@contextmanager
def site(directory: Path, url: str, *, everything_on: bool) -> Iterator[Site]:
    """A site on the database at *url*; with all the layers that may be switched on, or without."""
    file = write_configuration(directory, url)
    with file.open("a") as more:
        more.write(EVERYTHING_ON if everything_on else "")
        more.write("[placement_database]\nsqlite_synchronous = false\n")  # a fuzzed site need not survive a power cut
        more.write("[stead]\nmax_watchers = 0\n")  # nobody else is there, so that who waits for a change waits in vain
    settings = load([file])
    service = application.build_service(settings)
    opened = Site(application.assemble(service, settings), url)
    try:
        furnish(opened.api)
        yield opened
    finally:
        opened.close()
        service.close()


def furnish(api: Api) -> None:
    """Three trees, a host of four levels, a small one, and shared storage; and a consumer."""
    for trait in TRAITS[2:4]:
        api.put(f"/traits/{trait}").expect(201)
    api.put(f"/resource_classes/{CLASSES[3]}").expect(201)
    parents = [None, 0, 0, 1, 3, None, 5, None]
    for index, parent in enumerate(parents):
        uuid = PROVIDERS[index]
        api.post(
            "/resource_providers",
            name=f"host{index}",
            uuid=uuid,
            parent_provider_uuid=None if parent is None else PROVIDERS[parent],
        ).expect(200)
        record = {"total": 1000, "allocation_ratio": 4.0}
        classes = CLASSES[2:3] if index == 7 else CLASSES[index % 2 : index % 2 + 3]
        at = f"/resource_providers/{uuid}"
        api.put(f"{at}/inventories", generation=0, inventories=dict.fromkeys(classes, record)).expect(200)
        traits = TRAITS[1:2] if index == 7 else TRAITS[index % 3 : index % 3 + 1]
        api.put(f"{at}/traits", generation=1, traits=[name for name in traits if name != TRAITS[1] or index == 7])
        generation = api.get(at).generation
        api.put(f"{at}/aggregates", generation=generation, aggregates=AGGREGATES[index % 3 : index % 3 + 2]).expect(200)
    held = holding((PROVIDERS[0], {CLASSES[0]: 2}), (PROVIDERS[1], {CLASSES[1]: 1}))
    api.put(f"/allocations/{CONSUMERS[0]}", held).expect(204)
