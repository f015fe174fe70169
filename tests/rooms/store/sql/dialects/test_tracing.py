"""``connection_trace``: every statement says where in the code it comes from."""

import re

import sqlalchemy as sa

from tests.rooms.store.books import Books, fresh_uuid


def test_statements_of_reads_and_writes_say_where_they_come_from(books: Books) -> None:
    traced = Books(books.url, upgrade=False, names_places=True)
    told: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, _values: object, _context: object, _: bool) -> None:
        told.append(statement)

    for engine in (traced.store.writer, traced.store.reader, traced.store.refresher):
        sa.event.listen(engine, "before_cursor_execute", note)
    host = traced.provider(VCPU=2)
    traced.claim(fresh_uuid(), {host: {"VCPU": 1}})
    assert traced.used(host) == 1
    traced.close()
    places = {match[1] for text in told if (match := re.search(r"/\* (stead/\S+\.py):\d+ \w+ \*/$", text))}
    assert places >= {"stead/store/providers.py", "stead/store/allocations.py", "stead/store/protocol/clock.py"}
    assert all(text.endswith("*/") for text in told if text.startswith(("SELECT", "INSERT", "UPDATE")))
