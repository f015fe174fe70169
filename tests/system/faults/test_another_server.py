"""Another server behind the same address: nothing failed while anybody looked, and yet everything is loaded anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from stead.store.protocol.store import Connections
from stead.store.sql.dialects import dialect_of
from tests.rooms.store.books import Books, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system.faults.conftest import Victim

pytestmark = [
    pytest.mark.timeout(180),  # database servers are started, stopped and found again
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PyMySQL, when nobody answers it
]


@pytest.fixture
def books(victim: Victim) -> Iterator[Books]:
    books = Books(victim.url)
    yield books
    books.close()


def sees_what_changed_behind_the_back(victim: Victim, books: Books) -> bool:
    """Whether everything is loaded after the server was replaced by another one with the same books."""
    host, name = books.provider(), fresh_uuid()
    books.service.snapshot()
    books.execute("UPDATE resource_providers SET name = :name WHERE uuid = :uuid", name=name, uuid=host)
    books.service._source.close()
    books.store.close()  # no connection is left to break
    victim.crash()
    if victim.kind == "mariadb":
        victim.running = victim.running.start_again("--server-id=7")
    else:
        victim.start_again()
    return books.service.snapshot().find_named(name) is not None


def test_it_is_noticed_by_its_identity(victim: Victim, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sees_what_changed_behind_the_back(victim, books)
    victim.crash()
    victim.start_again()
    books.service._source.close()
    books.store.close()
    monkeypatch.setattr(Connections, "server_of", lambda *_: "some server")
    books.service.snapshot()
    assert not sees_what_changed_behind_the_back(victim, books)


def test_an_ordinary_user_may_ask_for_it(victim: Victim) -> None:
    if victim.kind != "postgresql":
        pytest.skip("the service is an ordinary user already")
    victim.execute("DROP ROLE IF EXISTS ordinary", "CREATE ROLE ordinary LOGIN")
    url = sa.make_url(victim.url).set(username="ordinary")
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    raw = engine.raw_connection()
    assert raw.driver_connection is not None
    found = dialect_of(url).identity(raw.driver_connection)
    raw.close()
    assert isinstance(found, tuple)
    started, system, timeline = found
    assert started is not None
    assert int(system) > 0
    assert timeline == "00000001"
