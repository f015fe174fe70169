"""Sessions of browsers with ``auth_strategy = token``: a value that stands for a token and ends before it does.

A session is not the token itself: browsers send cookies to every port of a host, and a token may never expire. The key
of a session is the digest of its token, so every process with the token file can check it, and a token that is removed
from the file ends its sessions. A session that its user ended is in the database (decision 61).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stead.auth.tokens import Token

ENVIRON_KEY = "stead.session"
"""The environ key of the session of a request. Only the web interface sets it; a client cannot."""

SECONDS = 12 * 3600
"""Longest duration of a session."""


COOKIE = "stead-session"


def session_in(header: str) -> str | None:
    """The session in the *header* Cookie of a request, of every strategy; None if there is none.

    The header has cookies of all programs on the host, whatever their ports, and in any form. So it is split as RFC
    6265, section 5.4 builds it: `http.cookies` would discard all of them for one that is malformed.
    """
    for pair in header.split(";"):
        name, _, value = pair.partition("=")
        if name.strip() == COOKIE:
            try:
                return urlsafe_b64decode(value.strip().strip('"')).decode() or None
            except ValueError:
                return None
    return None


def open_session(token: Token, now: datetime) -> str:
    """A session for *token*, for :data:`SECONDS` from *now* or until the token expires."""
    end = int(now.timestamp()) + SECONDS
    if token.expires is not None:
        end = min(end, int(token.expires.timestamp()))
    # Otherwise two sessions with one end would be the same, and a user who signs out would end both.
    claims = f"{end}.{secrets.token_hex(8)}"
    return f"{_name(token)}.{claims}.{_proof(token, claims)}"


def end_of(session: str) -> int:
    """The time at which a valid *session* ends by itself, in seconds since 1970."""
    return int(session.split(".")[1])


def find_session(tokens: Iterable[Token], session: str, now: datetime | None = None) -> Token | None:
    """The token for which *session* was opened; None if it is forged, or has ended, or none of *tokens* has it."""
    now = now or datetime.now(UTC)
    name, _, rest = session.partition(".")
    claims, _, proof = rest.rpartition(".")
    end = claims.partition(".")[0]
    # The length before `int`, which fails for numbers with thousands of digits.
    if not (end.isascii() and end.isdigit() and len(end) < 16 and int(end) > now.timestamp()):
        return None
    for token in tokens:
        if hmac.compare_digest(_name(token).encode(), name.encode()):
            is_proven = hmac.compare_digest(_proof(token, claims).encode(), proof.encode())
            return token if is_proven and not token.is_expired(now) else None
    return None


def _name(token: Token) -> str:
    return hashlib.sha256(b"stead session name\0" + token.digest).hexdigest()[:32]


def _proof(token: Token, claims: str) -> str:
    return hmac.new(token.digest, f"stead session\0{claims}".encode(), hashlib.sha256).hexdigest()
