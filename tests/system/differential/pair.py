"""Two services side by side: the same request to both, and answers that can be compared."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID, uuid5

from stead.application import assemble, build_service
from stead.config import load
from tests.system.api.client import Answer, Door, Headers, Reply, wsgi_door
from tests.system.differential import released
from tests.system.differential.asking import Request

NETLOC = "127.0.0.1:8778"
SPACE = UUID("a2d1c0de-0000-4000-8000-000000000000")


def kept_door(port: int) -> Door:
    """A door to the server on *port* whose connection stays open."""
    return _door_over(http.client.HTTPConnection("127.0.0.1", port, timeout=120))


@contextmanager
def opened_door(port: int) -> Iterator[Door]:
    """The same, closed in the end."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        yield _door_over(connection)


def _door_over(connection: http.client.HTTPConnection) -> Door:
    def knock(method: str, target: str, headers: Headers, body: bytes | None) -> Reply:
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value.encode())
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        except BaseException:
            connection.close()  # the next request opens it again
            raise

    return knock


class Side:
    """One of the two, and what it calls the things for which it chose the uuids itself."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._own: dict[str, str] = {}  # uuid that we speak of → its own

    def calls(self, uuid: str, own: str | None) -> None:
        """What we call *uuid* is *own* for this service; None: the same."""
        self._own.pop(uuid, None)
        if own is not None and own != uuid:
            self._own[uuid] = own

    def forget(self) -> None:
        """From now on this service's own uuids are those that we speak of."""
        self._own.clear()

    def ask(self, request: Request) -> Answer:
        headers: dict[str, str | None] = {
            "Host": NETLOC,
            "X-Auth-Token": "admin",
            "X-Roles": "admin,service",
            "Accept": "application/json",
            "OpenStack-API-Version": f"placement 1.{request.version}",
        }
        body = request.raw
        if request.body is not None:
            body = json.dumps(request.body).encode()
        if body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        headers |= dict(request.headers)
        target, sent = request.target, body
        for ours, own in self._own.items():
            target = target.replace(ours, own)
            sent = sent and sent.replace(ours.encode(), own.encode())
        wire = [(name, value) for name, value in headers.items() if value is not None]
        status, found, content = self._door(request.method, target, wire, sent)
        return self.translated(Answer(status, found, content))

    def translated(self, answer: Answer) -> Answer:
        """*answer* with the uuids that we speak of."""
        headers, body = answer.headers, answer.body
        for ours, own in self._own.items():
            headers = [(name, value.replace(own, ours)) for name, value in headers]
            body = body.replace(own.encode(), ours.encode())
        return Answer(answer.status, headers, body)


class Pair:
    """Stead and the released service; *steps* counts the requests that were sent to both to be compared."""

    def __init__(self, stead: Door, other: Door) -> None:
        self.stead = Side(stead)
        self.released = Side(other)
        self.steps = 0
        self.lives = 0

    def uuids(self) -> "Uuids":
        """Names for the things of one more history, which nothing before had."""
        self.lives += 1
        self.stead.forget()
        self.released.forget()
        return Uuids(self.lives)


class Uuids(dict[str, str]):
    """The uuid for each token, made when it is asked for."""

    def __init__(self, life: int) -> None:
        self._life = life
        self._renewed = 0

    def __missing__(self, token: str) -> str:
        self[token] = str(uuid5(SPACE, f"{self._life}/{token}/{self._renewed}"))
        return self[token]

    def renew(self, token: str) -> None:
        """From now on *token* stands for something new."""
        self._renewed += 1
        self.pop(token, None)


@contextmanager
def pair() -> Iterator[Pair]:
    """Both services, on empty databases.

    Raises:
        Unavailable
    """
    with TemporaryDirectory(prefix="stead-differential-") as name:
        ours, theirs = Path(name, "stead"), Path(name, "released")
        ours.mkdir()
        theirs.mkdir()
        with released.serving(theirs) as port, stead(ours) as door, opened_door(port) as other:
            yield Pair(door, other)


@contextmanager
def stead(directory: Path) -> Iterator[Door]:
    """Stead in this process, with its files in *directory*."""
    file = directory / "placement.conf"
    settings = load([file if file.exists() else released.configure(directory)])
    service = build_service(settings)
    try:
        yield wsgi_door(assemble(service, settings))
    finally:
        service.close()
