"""The file of static tokens.

Tokens are stored as SHA-256 digests. A plain, fast hash is enough: :func:`new_token` creates tokens from 256 random
bits, so that offline guessing is hopeless. A slow hash would cost time on each request.

The file is JSON::

    {"tokens": [{"name": "admin", "sha256": "…", "user": "admin", "project": "admin",
                 "roles": ["admin", "service"], "expires": "2031-01-01T00:00:00+00:00"}]}

``name`` is for people and unique in the file; ``user`` and ``project`` are ids; ``expires`` may be absent or null.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stead.auth.private_files import exposure_of, read_regular
from stead.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Token:
    """One entry of the file: the identity of a token. The token itself is not stored."""

    name: str
    digest: bytes  # SHA-256 of the token, 32 bytes
    user: str
    project: str
    roles: tuple[str, ...]
    expires: datetime | None = None  # with a time zone; None: never

    def is_expired(self, now: datetime) -> bool:
        """Whether the token is no longer valid at *now*."""
        return self.expires is not None and self.expires <= now


def new_token() -> str:
    """A new random token of 256 bits, safe in headers, URLs and arguments of commands."""
    return secrets.token_hex(32)


def digest(token: str) -> bytes:
    """The stored digest of *token*."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def parse(text: str | bytes) -> tuple[Token, ...]:
    """The tokens that the *text* of a token file lists, in its order.

    Raises:
        ValueError: the text is malformed. That includes unknown keys: with a misspelt ``expires``, a token would never
            expire.
    """
    document = json.loads(text)
    if not isinstance(document, dict) or set(document) != {"tokens"} or not isinstance(document["tokens"], list):
        raise ValueError('it must be an object with the one key "tokens", a list')
    tokens = tuple(_parse_entry(entry, f"tokens[{place}]") for place, entry in enumerate(document["tokens"]))
    for what in ("name", "digest"):
        if len({getattr(token, what) for token in tokens}) < len(tokens):
            raise ValueError(f"two tokens have the same {what.replace('digest', 'sha256')}")
    return tokens


def render(tokens: Iterable[Token]) -> str:
    """The text of a token file that lists *tokens*."""
    entries = [
        {
            "name": token.name,
            "sha256": token.digest.hex(),
            "user": token.user,
            "project": token.project,
            "roles": list(token.roles),
            "expires": token.expires and token.expires.isoformat(),
        }
        for token in tokens
    ]
    return json.dumps({"tokens": entries}, indent=2) + "\n"


_REQUIRED = frozenset({"name", "sha256", "user", "project", "roles"})
_OPTIONAL = frozenset({"expires"})


def _parse_entry(entry: Any, where: str) -> Token:
    if not isinstance(entry, dict):
        raise ValueError(f"{where} is not an object")  # noqa: TRY004  # the file's fault, not a caller's
    if missing := _REQUIRED - set(entry):
        raise ValueError(f"{where} lacks {', '.join(sorted(missing))}")
    if unknown := set(entry) - _REQUIRED - _OPTIONAL:
        raise ValueError(f"{where} has unknown keys: {', '.join(sorted(unknown))}")
    for key in ("name", "sha256", "user", "project"):
        if not isinstance(entry[key], str) or not _is_header_text(entry[key]):
            raise ValueError(f"{where}.{key} is not a text of one line")
    roles = entry["roles"]
    if not isinstance(roles, list) or not all(isinstance(role, str) and _is_role(role) for role in roles):
        raise ValueError(f"{where}.roles is not a list of role names")
    return Token(
        name=entry["name"],
        digest=_parse_digest(entry["sha256"], where),
        user=entry["user"],
        project=entry["project"],
        roles=tuple(roles),
        expires=_parse_time(entry.get("expires"), where),
    )


def _is_header_text(text: str) -> bool:
    return bool(text) and text.isprintable()


def _is_role(text: str) -> bool:
    return _is_header_text(text) and "," not in text


def _parse_digest(text: str, where: str) -> bytes:
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != hashlib.sha256().digest_size:
        raise ValueError(f"{where}.sha256 is not 64 hexadecimal digits")
    return value


def _parse_time(text: Any, where: str) -> datetime | None:
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError(f"{where}.expires is not a time with its zone, like 2031-01-01T00:00:00Z")
    return time


class TokenFile:
    """The tokens of the last valid state of a file; none while the file does not exist.

    Thread-safe.
    """

    def __init__(self, path: Path) -> None:
        """Read the file at *path*.

        Raises:
            ConfigError: it is missing, unreadable or malformed.
        """
        self._path = path
        self._exposure: str | None = None
        mark = _mark(path)
        try:
            # One attribute holds both, so that no thread combines the tokens of one state with the mark of another.
            self._state = mark, parse(read_regular(path))
        except (OSError, ValueError) as error:
            raise ConfigError(f"token file {path}: {_reason(error)}") from error
        self._warn_if_exposed()

    def find(self, token: str) -> Token | None:
        """The entry of *token*, if it is in the file and has not expired.

        Every entry is compared, each in constant time, so that the duration reveals nothing about the digests.
        """
        digest_of_token = digest(token)
        matching = None
        for entry in self.current():
            if hmac.compare_digest(entry.digest, digest_of_token):
                matching = entry
        return None if matching is None or matching.is_expired(datetime.now(UTC)) else matching

    def current(self) -> tuple[Token, ...]:
        """All entries, expired ones included."""
        mark, tokens = self._state
        now = _mark(self._path)  # before reading, so that a change meanwhile causes another read
        if now == mark:
            return tokens
        try:
            tokens = parse(read_regular(self._path))
        except (FileNotFoundError, NotADirectoryError):
            LOG.warning("token file %s does not exist: no token is valid until it does", self._path)
            tokens = ()
        except (OSError, ValueError) as error:  # logged once per state of the file, not once per request
            LOG.warning("token file %s: %s; the previous tokens stay valid", self._path, _reason(error))
        self._state = now, tokens
        self._warn_if_exposed()
        return tokens

    def _warn_if_exposed(self) -> None:
        exposure = exposure_of(self._path)
        if exposure and exposure != self._exposure:  # logged once, not with each change of the file
            LOG.warning("token file %s: %s", self._path, exposure)
        self._exposure = exposure


def _mark(path: Path) -> tuple[int, int, int] | None:
    """A value that changes whenever the file changes; None if the file cannot be inspected."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
