"""A claim remembers ids of providers, and is right if they are another provider's by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from stead.domain.errors import UnknownProvider
from tests.rooms.store.books import Books, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Iterable


def statements_of_a_claim(books: Books, host: str) -> list[str]:
    statements: list[str] = []

    def receive(_connection: object, _cursor: object, text: str, *_: object) -> None:
        statements.append(text)

    sa.event.listen(books.store.writer, "before_cursor_execute", receive)
    try:
        books.claim(fresh_uuid(), {host: {"VCPU": 1}}, None)
    finally:
        sa.event.remove(books.store.writer, "before_cursor_execute", receive)
    return statements


def test_a_provider_of_the_snapshot_is_not_searched(books: Books) -> None:
    host = books.provider(VCPU=9)
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})  # so that the owner exists
    searched = statements_of_a_claim(books, host)
    books.service.snapshot()
    assert len(statements_of_a_claim(books, host)) == len(searched) - 1


@pytest.mark.parametrize("id_is_of", ["another provider", "nobody"])
def test_an_id_of_another_provider_is_noticed(books: Books, monkeypatch: pytest.MonkeyPatch, id_is_of: str) -> None:
    host, other, consumer = books.provider(VCPU=9), books.provider(VCPU=9), fresh_uuid()
    books.service.snapshot()
    wrong = books.service._catalog.recent_ids([other])[other] if id_is_of == "another provider" else 2_000_000_000

    def recent_ids(uuids: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(uuids, wrong)

    monkeypatch.setattr(books.service._catalog, "recent_ids", recent_ids)
    books.claim(consumer, {host: {"VCPU": 2}}, None)
    assert books.held(consumer) == {host: {"VCPU": 2}}
    assert (books.used(host), books.used(other)) == (2, 0)


def test_a_provider_that_another_service_deleted_is_unknown(books: Books, second: Books) -> None:
    host = books.provider(VCPU=9)
    books.service.snapshot()
    second.drop(host)
    with pytest.raises(UnknownProvider):
        books.claim(fresh_uuid(), {host: {"VCPU": 1}}, None)
