"""A connection that breaks around a COMMIT, on a real server: the client is told what became of its write."""

from __future__ import annotations

import select
import socket
import tempfile
import threading
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead import application
from stead.config import load
from stead.store.protocol import store as writing
from tests.conftest import write_configuration
from tests.rooms.store.books import Books, faults, fresh_uuid
from tests.rooms.store.protocol.interleaving import outcome
from tests.system.api.client import Api, holding, wsgi_door
from tests.system.faults.waiting import RECOVERY_SECONDS
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.system.faults.conftest import Victim

pytestmark = [
    pytest.mark.timeout(180),  # database servers are started, stopped and found again
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PyMySQL, when nobody answers it
]

SOCKETS = {"postgresql": ("host", ".s.PGSQL.5432"), "mariadb": ("unix_socket", "socket")}


class Cut(Enum):
    """Where a connection is cut."""

    BEFORE = "the server never sees the COMMIT"
    AFTER = "the server has answered, and the answer is lost"


class Cutter:
    """Passes all on between a socket of its own and the server's; told to, it cuts a connection at its COMMIT."""

    def __init__(self, at: Path, target: Path) -> None:
        self.at = at
        self._target = target
        self._armed: tuple[Cut, Callable[[], Any]] | None = None
        self.done: list[Cut] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(at))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, cut: Cut, then: Callable[[], Any]) -> None:
        """Cut the next connection that commits, and call *then* before its client knows."""
        self._armed = cut, then

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._talk, args=(near,), daemon=True).start()

    def _talk(self, near: socket.socket) -> None:
        far = socket.socket(socket.AF_UNIX)
        cutting: tuple[Cut, Callable[[], Any]] | None = None
        with near, far, suppress(OSError):
            far.connect(str(self._target))
            while True:
                for end in select.select([near, far], [], [])[0]:
                    said = end.recv(65536)
                    if end is near and self._armed and b"COMMIT" in said:
                        cutting, self._armed = self._armed, None
                    if not said or (cutting and end is (near if cutting[0] is Cut.BEFORE else far)):
                        if cutting:
                            self.done.append(cutting[0])
                            cutting[1]()
                        return
                    (far if end is near else near).sendall(said)


@pytest.fixture
def cutter(victim: Victim) -> Iterator[Cutter]:
    with tempfile.TemporaryDirectory() as place:  # short enough for the path of a socket
        name = SOCKETS[victim.kind][1]
        cutter = Cutter(Path(place) / name, victim.running.home.path / name)
        yield cutter
        cutter.close()


@pytest.fixture
def books(victim: Victim, cutter: Cutter) -> Iterator[Books]:
    """A service that reaches its database through the cutter; nobody but the test asks it anything."""
    key, _ = SOCKETS[victim.kind]
    url = sa.make_url(victim.url).update_query_dict({key: str(cutter.at if key != "host" else cutter.at.parent)})
    books = Books(url.render_as_string(hide_password=False))
    yield books
    books.close()


@contextmanager
def one_write(books: Books, cutter: Cutter, cut: Cut, then: Callable[[], Any] = lambda: None) -> Iterator[None]:
    """The connection of the next write is cut around its COMMIT."""

    def arm(_connection: sa.Connection) -> None:
        if not cutter.done:
            cutter.arm(cut, then)

    cutter.done.clear()
    sa.event.listen(books.store.writer, "commit", arm)
    try:
        yield
    finally:
        sa.event.remove(books.store.writer, "commit", arm)
    assert cutter.done == [cut]


@pytest.mark.parametrize("cut", Cut)
def test_the_client_is_told_of_success_once_and_the_books_have_it_once(books: Books, cutter: Cutter, cut: Cut) -> None:
    host, consumer = books.provider(VCPU=8), fresh_uuid()
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    with one_write(books, cutter, cut):
        assert outcome(lambda: books.claim(consumer, {host: {"VCPU": 2}}, None)) is None
    assert (books.held(consumer), books.consumer_generation(consumer)) == ({host: {"VCPU": 2}}, 1)
    assert books.used(host) == 3
    assert faults(books) == {}


def test_without_the_rule_the_client_is_told_something_else(
    books: Books, cutter: Cutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, consumer = books.provider(VCPU=8), fresh_uuid()
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    monkeypatch.setattr(writing, "has_happened", lambda *_: False)
    with one_write(books, cutter, Cut.AFTER):
        assert outcome(lambda: books.claim(consumer, {host: {"VCPU": 2}}, None)) == "ConsumerConflict"
    assert books.held(consumer) == {host: {"VCPU": 2}}


def recover(books: Books) -> None:
    """Each pool finds out for itself that its connections are gone."""
    for speak in (books.service.snapshot, lambda: books.held(fresh_uuid()), lambda: books.release(fresh_uuid())):
        answers = partial(_answers, speak)
        wait_until(answers, "it does not recover", seconds=RECOVERY_SECONDS)


def _answers(speak: Callable[[], object]) -> bool:
    return outcome(speak) != "Unavailable"


@pytest.mark.parametrize("cut", Cut)
def test_a_database_that_is_gone_afterwards(
    books: Books, cutter: Cutter, cut: Cut, victim: Victim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503, and after its restart the books have the whole of it or nothing."""
    settings = load([write_configuration(tmp_path, books.url)])
    api = Api(wsgi_door(application.assemble(books.service, settings)))
    host = api.create_provider(inventories={"VCPU": 8})
    api.claim((host, {"VCPU": 1}))
    consumer = fresh_uuid()
    monkeypatch.setattr(books.store, "_claim_timeout", 1.0)
    with one_write(books, cutter, cut, then=victim.crash):
        answer = api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 2})))
    assert answer.refused(503)
    assert answer.header("retry-after") == "1"
    monkeypatch.undo()
    victim.start_again()
    recover(books)
    happened = cut is Cut.AFTER
    assert books.held(consumer) == ({host.uuid: {"VCPU": 2}} if happened else {})
    assert books.used(host.uuid) == (3 if happened else 1)
    assert faults(books) == {}
    books.claim(consumer, {host.uuid: {"VCPU": 4}}, 1 if happened else None)
    assert books.used(host.uuid) == 5
