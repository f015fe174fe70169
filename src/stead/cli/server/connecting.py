"""The server that a command uses, as a site of the library, and the library's errors as those of commands.

The library is imported when a command connects, so that ``stead --help`` does not wait for it.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from stead.cli.errors import NO, REFUSED, CommandError
from stead.cli.server.endpoint import endpoint
from stead.cli.suggestions import hint_for
from stead.client.errors import Error, Refused, Unavailable, Unsupported
from stead.client.retrying import NotSent

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from stead import Site
    from stead.cli.server.endpoint import Endpoint

_ANSWER_SECONDS = 300.0
_STATUSES_THAT_MEAN_NO = frozenset({404, 409})


@contextmanager
def connect() -> Iterator[Site]:
    """The server that the shared options name (see :func:`stead.cli.server.endpoint.endpoint`).

    Raises:
        CommandError: what the library raised inside, in the words of a command.
    """
    where = endpoint()
    try:
        with open_site(where) as site:
            try:
                yield site
            except Refused as error:
                raise _complaint(error, site, where) from error
    except Error as error:
        raise CommandError(str(error)) from error


def open_site(where: Endpoint) -> Site:
    """The site at *where*. No call is repeated: the user sees each error at once."""
    from stead.client.blocking.connecting import connect as connect_to

    certificate = None if where.certificate is None else _only(where.certificate)
    return connect_to(where.url, where.token, certificate=certificate, timeout=_ANSWER_SECONDS, retry=False)


def summary(error: Refused) -> str:
    """*error* in one line: its detail and its status, if there was a response."""
    return f"{error.detail} ({error.status})" if error.status else error.detail


def _complaint(error: Refused, site: Site, where: Endpoint) -> CommandError:
    words = summary(error)
    if isinstance(error, NotSent):
        words += " (`stead serve` starts a server, --url names another)"
    elif error.status == 401:
        reason = "wants a token" if where.token is None else "does not accept the token"
        words = f"{site.url} {reason}; give one with --token or STEAD_TOKEN (401)"
    elif error.status and not error.facts and not isinstance(error, Unsupported):
        words = f"{site.url}: {words}"  # no error of the API: something else answers
    complaint = CommandError(words + _hint(error, site))
    complaint.exit_code = NO if error.status in _STATUSES_THAT_MEAN_NO else REFUSED
    return complaint


def _hint(error: Refused, site: Site) -> str:
    """A similar name that exists; empty if there is none."""
    return "" if isinstance(error, Unavailable) else hint_for(partial(site.request, "GET"), error.detail)


def _only(certificate: Path) -> ssl.SSLContext:
    """Trust only the first certificate of the PEM file *certificate*, which need not name the host."""
    import ssl

    try:
        text = certificate.read_text()
        start, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not be self-signed
        context.load_verify_locations(cadata=text[text.index(start) : text.index(end) + len(end)])
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CommandError(f"cannot read the server's certificate {certificate}: {reason.lower()}") from error
    return context
