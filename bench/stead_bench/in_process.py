"""The application in this process, without a network, so that only its own work is measured."""

from __future__ import annotations

import io
import logging
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import orjson

from stead.application import assemble, build_service
from stead.config import load
from stead_bench import filling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from wsgiref.types import WSGIApplication

    from stead.config.settings import Settings
    from stead.service.service import Service
    from stead_bench.sites import Site

OWN = "placement 1.39, stead 1.1"


@contextmanager
def serving(site: Site) -> Iterator[tuple[WSGIApplication, int]]:
    """The application on a temporary SQLite database that has *site*, and the number of its providers. Logs nothing."""
    with service_of(site) as (_, app, providers):
        yield app, providers


@contextmanager
def service_of(site: Site) -> Iterator[tuple[Service, WSGIApplication, int]]:
    """The same, with the service below the application."""
    with configured(site) as (settings, _, providers), started(settings) as (service, app):
        yield service, app, providers


@contextmanager
def configured(site: Site) -> Iterator[tuple[Settings, str, int]]:
    """Settings for a service on a temporary SQLite database with *site*; its URL; the number of its providers."""
    with TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/placement.db"
        providers = filling.make(url, site, silent)
        file = Path(directory, "placement.conf")
        file.write_text(f"[placement_database]\nconnection = {url}\n[api]\nauth_strategy = noauth2\n")
        yield load([file]), url, providers


@contextmanager
def started(settings: Settings) -> Iterator[tuple[Service, WSGIApplication]]:
    """A service with these settings, and its application. Logs nothing."""
    logging.disable()
    service = build_service(settings)
    service.start()
    try:
        yield service, assemble(service, settings)
    finally:
        service.close()


@contextmanager
def silent(work: str, size: int) -> Iterator[Callable[[int], None]]:  # noqa: ARG001  # the names are those of a Watcher
    """A watcher that shows nothing."""
    yield lambda _: None


def get(app: WSGIApplication, target: str, version: str = OWN, tag: str = "") -> tuple[bytes, str]:
    """The body and the ETag of an administrator's GET, which must succeed."""
    return _send(app, "GET", target, version, tag)


def post(app: WSGIApplication, path: str, body: object) -> bytes:
    """The body of the answer to an administrator's POST of *body* as JSON, which must succeed."""
    return _send(app, "POST", path, OWN, sent=orjson.dumps(body))[0]


def put(app: WSGIApplication, path: str, body: object) -> bytes:
    """The body of the answer to an administrator's PUT of *body* as JSON, which must succeed."""
    return _send(app, "PUT", path, OWN, sent=orjson.dumps(body))[0]


def _send(
    app: WSGIApplication, method: str, target: str, version: str, tag: str = "", sent: bytes = b""
) -> tuple[bytes, str]:
    path, _, query = target.partition("?")
    answered: list[tuple[str, list[tuple[str, str]]]] = []
    environ = {
        "REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": query,
        "HTTP_ACCEPT": "application/json", "HTTP_X_AUTH_TOKEN": "admin:admin", "HTTP_OPENSTACK_API_VERSION": version,
        "HTTP_IF_NONE_MATCH": tag, "REMOTE_ADDR": "127.0.0.1", "SERVER_NAME": "localhost", "SERVER_PORT": "80",
        "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(sent)), "wsgi.input": io.BytesIO(sent),
        "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http", "wsgi.errors": sys.stderr,
    }  # fmt: skip
    body = b"".join(app(environ, lambda status, headers, *_: answered.append((status, headers))))  # type: ignore[arg-type]  # a start_response whose write is never called
    status, headers = answered[0]
    if status[:3] not in ("200", "201", "204", "304"):
        raise RuntimeError(f"{method} {target}: {status} {body!r}")
    return body, dict(headers).get("etag", "")
