"""Edits a token file. Services that use the file reread it automatically."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from stead.auth.private_files import locked, read_regular, replace_privately
from stead.auth.token_file import Token, digest, new_token, parse, render
from stead.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path


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
