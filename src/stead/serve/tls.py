"""TLS of ``stead serve``: the certificate files, and the context created from them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class UnusableFiles(Exception):
    """The certificate or its key cannot be used; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: a certificate with its chain, its key, and the CA certificates for client certificates."""

    certificate: Path
    key: Path
    clients: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The TLS context for connections: TLS 1.2 and newer.

        Raises:
            UnusableFiles
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # HTTP/2 is not offered, since the server does not support it (decision 12).
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
            if self.clients is not None:
                context.load_verify_locations(self.clients)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError, _PasswordWanted) as error:
            raise UnusableFiles(f"the certificate or its key cannot be used: {_words(error)}") from error
        return context


class _PasswordWanted(Exception):
    """The key is encrypted."""


def _no_password() -> str:
    raise _PasswordWanted("the key is encrypted; remove its password, since stead serve cannot read encrypted keys")


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
