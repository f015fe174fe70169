"""The two ways to a site: over HTTP, or in this process."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from stead.client import calls
from stead.client.aio.running import in_thread, opens
from stead.client.aio.site import Site
from stead.client.aio.transport import Http, InProcess

if TYPE_CHECKING:
    from pathlib import Path

    from stead.client.aio.transport import Certificate, TokenSource

_EMBEDDED = "stead.embedded"
"""Imported by name when it is needed: it has the whole server, and stands above the client."""

ADMIN = "admin"
"""The user of Stead in this process. A user who can open its database may do everything with it."""


def connect(
    url: str,
    token: TokenSource | None = None,
    *,
    project: str | None = None,
    user: str | None = None,
    certificate: Certificate = None,
    timeout: float = 30.0,
    retry: bool = True,
) -> Site:
    """A site behind a URL. Nothing is sent until the first call.

    Args:
        url: of the Placement API: ``http://…``, ``https://…``, or ``unix://`` and the path of a socket.
        token: a token, a function that returns one, or a ``keystoneauth1`` session.
        project, user: owners of claims that do not say otherwise.
        certificate: a PEM file of the authorities to trust instead of those of the system, or an ``ssl.SSLContext``.
            With one, a Unix socket is expected to have TLS.
        timeout: seconds for one call with all its repetitions.
        retry: whether calls are repeated after 503 and lost connections. Programs with a user in front do not.

    Raises:
        InvalidRequest: the URL or the certificate cannot be used.
    """
    transport = Http(calls.read(url, encrypted=certificate is not None), certificate)
    return Site(transport, token, project=project, user=user, timeout=timeout, retry=retry)


@opens
async def open(  # noqa: A001  # it is called stead.aio.open
    database: str | Path,
    *,
    project: str | None = None,
    user: str | None = None,
    upgrade: bool | None = None,
    timeout: float = 30.0,
) -> Site:
    """Stead in this process, without a server. Any number of processes and servers may use the same database.

    Args:
        database: a data directory, as of ``stead serve --data-dir``, created if it does not exist; the
            URL of a database; or ``:memory:`` for a site of this process only, which is deleted when it is closed.
        project, user, timeout: as of ``connect``.
        upgrade: whether missing tables are created. Default: for a directory and for SQLite.

    Raises:
        CannotOpen: the database cannot be used.
        Unavailable: it does not answer.
    """
    embedded = import_module(_EMBEDDED)
    opened = await in_thread(embedded.start_here, database, upgrade)
    transport = InProcess(opened.application, opened.shown, opened.close)
    return Site(transport, ADMIN, project=project, user=user, timeout=timeout)
