"""Static tokens: their file, its edits, the token of an embedded service, and one-time codes.

Tokens are stored as SHA-256 digests. A plain, fast hash is enough: :func:`new_token` creates tokens from 256 random
bits, so that offline guessing is hopeless. A slow hash would cost time on each request.

The file is JSON::

    {"tokens": [{"name": "admin", "sha256": "…", "user": "admin", "project": "admin",
                 "roles": ["admin", "service"], "expires": "2031-01-01T00:00:00+00:00"}]}

``name`` is for people and unique in the file; ``user`` and ``project`` are ids; ``expires`` may be absent or null.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import logging
import os
import secrets
import shlex
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stead.config.values import ConfigError
from stead.process.files import exposure_of, read_regular, replace_privately

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
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


# Edits a token file. Services that use the file reread it automatically.


def tokens_in(path: Path) -> tuple[Token, ...]:
    """The entries of the file; none if it does not exist.

    Raises:
        ConfigError: it cannot be read, or is malformed.
    """
    with _explained(path):
        return _read(path)


def create(
    path: Path, name: str, *, user: str, project: str, roles: Sequence[str], expires: datetime | None = None
) -> str:
    """Create a token and store its digest. Returns the token, which is not stored. Creates the file if missing.

    Raises:
        ConfigError: the file cannot be used, a token of this name exists, or a text is not valid in an entry.
    """
    made = new_token()
    entry = Token(name=name, digest=digest(made), user=user, project=project, roles=tuple(roles), expires=expires)
    with _explained(path), locked(path):
        # Read under the lock, so that no entry of another command is lost.
        present = _read(path)
        if any(token.name == name for token in present):
            raise ConfigError(f"token file {path}: there is a token {name} already")
        _write(path, [*present, entry])
    return made


def revoke(path: Path, names: Collection[str]) -> None:
    """Remove the entries of these *names*, all or none.

    Raises:
        KeyError: with a name that does not exist.
        ConfigError: the file cannot be used.
    """
    with _explained(path), locked(path):
        present = _read(path)
        for name in names:
            if all(token.name != name for token in present):
                raise KeyError(name)
        _write(path, [token for token in present if token.name not in names])


def _read(path: Path) -> tuple[Token, ...]:
    with suppress(FileNotFoundError):
        return parse(read_regular(path))
    return ()


def _write(path: Path, tokens: Sequence[Token]) -> None:
    text = render(tokens)
    parse(text)  # never write what services could not read again
    place = path.resolve()  # a symbolic link stays one
    replace_privately(place, text, like=place.stat() if place.exists() else None)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"token file {path}: {error.filename or path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"token file {path}: {error}") from error


# The token that an embedded service creates for its owner at first start.


NAME = "admin"
ROLES = ("admin", "service")


def ensure_admin_token(data_dir: Path) -> str:
    """The admin token of *data_dir*. Creates a token, and a private directory, unless a valid token exists.

    The token is stored in ``admin-token``, its digest in ``tokens.json``; other tokens there stay. A token that was
    removed from ``tokens.json`` is never valid again: a new one replaces it. Several processes may call this at the
    same time; all get the same token. If the machine crashes half way, the next call completes the work.

    Raises:
        ConfigError: the directory or a file in it cannot be used, or other users can access the directory.
    """
    try:
        private_directory(data_dir)
        tokens_file = data_dir / "tokens.json"
        with locked(tokens_file):
            return _ensure(tokens_file, data_dir / "admin-token")
    except OSError as error:
        raise ConfigError(f"data directory {data_dir}: {error.filename or data_dir}: {error.strerror}") from error


def _ensure(tokens_file: Path, token_file: Path) -> str:
    tokens: tuple[Token, ...] = ()
    with suppress(FileNotFoundError):
        try:
            tokens = parse(read_regular(tokens_file))
        except ValueError as error:
            raise ConfigError(f"token file {tokens_file}: {error}") from error
    with suppress(FileNotFoundError):
        try:
            stored = read_regular(token_file).decode().strip()
        except ValueError as error:
            raise ConfigError(f"token file {token_file}: {error}") from error
        if any(token.digest == digest(stored) for token in tokens):
            return stored
    made = new_token()
    entry = Token(name=NAME, digest=digest(made), user=NAME, project=NAME, roles=ROLES)
    others = [token for token in tokens if token.name != NAME]
    # This order is crash-safe: a crash between the two leaves an unused digest, and the next start replaces it.
    replace_privately(tokens_file, render([entry, *others]))
    replace_privately(token_file, made + "\n")
    return made


# One-time codes, with which the owner of an embedded service signs in to the web interface.
#
# A code is a file in the data directory, named after the code's digest, so that any process of the service can accept
# it, and only once: removing the file is what accepts it.


SECONDS = 3600
"""For how long a code is valid."""

_DIRECTORY = "sign-in-codes"


def new_code(data_dir: Path) -> str:
    """A new code of 192 bits, valid for :data:`SECONDS`. Removes expired ones.

    Raises:
        OSError: the data directory cannot be written.
    """
    directory = data_dir / _DIRECTORY
    private_directory(directory)
    for file in directory.iterdir():
        with suppress(FileNotFoundError):
            if _is_expired(file):
                file.unlink()
    code = secrets.token_urlsafe(24)
    replace_privately(directory / _digest(code), "")
    return code


def accept(data_dir: Path, code: str) -> bool:
    """Whether *code* is valid; from now on it is not."""
    file = data_dir / _DIRECTORY / _digest(code)
    try:
        is_expired = _is_expired(file)
        file.unlink()  # of several requests at once, one removes it
    except OSError:
        return False
    return not is_expired


def _is_expired(file: Path) -> bool:
    return time.time() - file.stat().st_mtime > SECONDS


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()


# Files with secrets: one writer at a time, and readers see either the old content or the new.


def private_directory(path: Path) -> None:
    """Make *path* a directory that only its owner can access; an empty one gets mode 0700, as with ``initdb``.

    Raises:
        ConfigError: other users can access it, and it is not empty.
        OSError: it cannot be created or inspected.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return
    if not any(path.iterdir()):
        path.chmod(0o700)
        return
    can = "write to it and become administrator" if mode & (stat.S_IWGRP | stat.S_IWOTH) else "read it"
    remedy = f"Run `chmod 700 {shlex.quote(str(path))}`"
    raise ConfigError(f"data directory {path}: other users can {can} (mode {mode:04o}). {remedy}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock on *path* for the block, so that no other caller changes it. The lock is a file beside it.

    Raises:
        ConfigError: other users can write to the directory.
        OSError: the directory cannot be used.
    """
    directory = path.parent
    if directory.stat().st_mode & stat.S_IWOTH:
        raise ConfigError(f"directory {directory}: all users can write to it and become administrator")
    # Not the file itself: each change replaces it, and a lock on a replaced file excludes no other process.
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)  # closing releases the lock
