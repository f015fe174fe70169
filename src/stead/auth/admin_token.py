"""The token that an embedded service makes for its owner at first start."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from stead.auth.token_file import Token, digest, new_token, parse, render
from stead.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "admin"
ROLES = ("admin", "service")


def ensure_admin_token(data_dir: Path) -> str:
    """The admin token of *data_dir*, made if there is none that works. The directory is made too, for its owner only.

    The token is kept in ``admin-token``, its digest in ``tokens.json`` beside other tokens, which stay. A token that
    was removed from ``tokens.json`` never works again: a new one takes its place. May be called by several processes at
    once; all get the same token. If the machine stops half way, the next call finishes.

    Raises:
        ConfigError: the directory or a file in it cannot be used, or anybody may write to the directory.
    """
    try:
        with _locked(data_dir):
            return _ensure(data_dir / "tokens.json", data_dir / "admin-token")
    except OSError as error:
        raise ConfigError(f"data directory {data_dir}: {error.filename or data_dir}: {error.strerror}") from error


def _ensure(tokens_file: Path, token_file: Path) -> str:
    tokens: tuple[Token, ...] = ()
    with suppress(FileNotFoundError):
        try:
            tokens = parse(tokens_file.read_bytes())
        except ValueError as error:
            raise ConfigError(f"token file {tokens_file}: {error}") from error
    with suppress(FileNotFoundError):
        kept = token_file.read_text(encoding="utf-8").strip()
        if any(token.digest == digest(kept) for token in tokens):
            return kept
    made = new_token()
    entry = Token(name=NAME, digest=digest(made), user=NAME, project=NAME, roles=ROLES)
    others = [token for token in tokens if token.name != NAME]
    # In this order a crash between the two leaves a digest nobody has the token of, and the next start replaces it.
    replace_privately(tokens_file, render([entry, *others]))
    replace_privately(token_file, made + "\n")
    return made


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if data_dir.stat().st_mode & 0o002:
        raise ConfigError(f"data directory {data_dir}: anybody may write to it, and so become administrator")
    lock = os.open(data_dir / "tokens.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)  # and with it the lock


def replace_privately(path: Path, text: str) -> None:
    """Make *text* the content of *path*, which only its owner may read. Readers see the old content or the new."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
