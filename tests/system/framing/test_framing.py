"""Ambiguous messages of one client behind a proxy change no answer of another.

`distributions/wsgi-lanes/tests` compares how they are read with h11 and gunicorn. `make framing` runs more streams, and
compares with nginx and uWSGI too.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from lanes_testing.messages import INNER, stream_of
from tests.conftest import write_configuration
from tests.servers.stead import serving
from tests.system.api.client import NEWEST
from tests.system.framing.servers import PROXIES, proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(300)]  # starts servers

PER_PROXY = 60


ATTACKS = [
    b"POST /traits HTTP/1.1\r\nHost: a\r\n%b%b" % (upgrade, body)
    for upgrade in (
        b"Connection: Upgrade\r\nUpgrade: x\r\n",
        b"Connection: upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n",
    )
    for inner in (INNER, b"GET /inner HTTP/1.1\r\nHost: a\r\nX: ", b"DELETE /traits/CUSTOM_VICTIM HTTP/1.1\r\nX: ")
    for body in (
        b"Content-Length: %d\r\n\r\n%b" % (len(inner), inner),
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(inner), inner),
    )
]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that servers of other users can reach: pytest's own ones are root's."""
    with TemporaryDirectory(prefix="stead-framing-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def attack(address: tuple[str, int], stream: bytes) -> None:
    """Send *stream* on a connection of its own, and read until the server ends it or says no more."""
    with socket.create_connection(address, timeout=0.1) as connection, suppress(OSError):
        connection.sendall(stream)
        while connection.recv(65536):
            pass


@pytest.mark.parametrize("name", PROXIES)
def test_bytes_of_one_client_change_no_answer_of_another(name: str, tmp_path: Path, place: Path) -> None:
    """The clients come by one proxy, which shares its connections to Stead among them."""
    with ExitStack() as stack:
        configuration = write_configuration(tmp_path, f"sqlite:///{tmp_path}/p.db")
        with configuration.open("a") as file:
            file.write("[stead]\nui_hosts = a,stead\n")  # of the streams, and of nginx's upstream
        url = stack.enter_context(serving(configuration, workers=1))
        address = stack.enter_context(proxy(name, place, int(url.rpartition(":")[2])))
        victim = stack.enter_context(closing(HTTPConnection(*address, timeout=30)))
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {NEWEST}"}
        for number, stream in enumerate([*ATTACKS, *map(stream_of, range(PER_PROXY))]):
            attack(address, stream)
            for method, target, status in (
                ("GET", f"/resource_classes/CUSTOM_ASKED_{number}", 404),
                ("PUT", "/traits/CUSTOM_VICTIM", 201 if number == 0 else 204),
            ):
                victim.request(method, target, headers=headers)
                answer = victim.getresponse()
                text = answer.read().decode()
                assert answer.status == status, (number, stream, text)
                assert status != 404 or f"CUSTOM_ASKED_{number}" in text, (number, stream, text)
