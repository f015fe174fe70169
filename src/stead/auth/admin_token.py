"""The token that an embedded service creates for its owner at first start."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from stead.auth.private_files import locked, private_directory, read_regular, replace_privately
from stead.auth.token_file import Token, digest, new_token, parse, render
from stead.config.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

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
