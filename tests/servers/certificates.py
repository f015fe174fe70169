"""Certificates of TLS for servers and clients of tests."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate and of its key."""

    certificate: Path
    key: Path


def certified(place: Path, *extensions: str, by: Certificate | None = None) -> Certificate:
    """A certificate with its key in the directory *place*, signed by another one or by itself."""
    made = Certificate(place / "cert.pem", place / "key.pem")
    signed = ["-CA", str(by.certificate), "-CAkey", str(by.key)] if by else []
    added = [word for extension in extensions for word in ("-addext", extension)]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         *added, *signed, "-keyout", made.key, "-out", made.certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


def certified_for_localhost(place: Path) -> Certificate:
    """One that signs itself, for a server on this machine."""
    return certified(place, "subjectAltName=DNS:localhost,IP:127.0.0.1", "basicConstraints=critical,CA:TRUE")
