"""The options that every command shares, and what they default to."""

import json
import os
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_URL = "http://127.0.0.1:8778"


@dataclass(frozen=True, slots=True)
class Options:
    """What was given before or after the command's name, or in the environment; None where nothing was."""

    url: str | None = None
    token: str | None = field(default=None, repr=False)
    data_dir: Path | None = None
    json: bool = False


_current: ContextVar[Options] = ContextVar("stead-options")


def options() -> Options:
    """The shared options of the running command."""
    return _current.get(Options())


def use_options(given: Options) -> None:
    """Make *given* the shared options of everything that runs from here on."""
    _current.set(given)


def data_directory() -> Path:
    """Where an embedded Stead keeps its database, its tokens and the note of where it listens."""
    if chosen := options().data_dir:
        return chosen
    from platformdirs import user_data_dir

    return Path(user_data_dir("stead"))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to ask, and as whom; *token* is None if there is none that may be sent there."""

    url: str
    token: str | None = field(repr=False)


def endpoint() -> Endpoint:
    """The server to ask: the one that was named, else the embedded one that runs, else the default address.

    The embedded server's admin token goes to the embedded server only, and only while its process lives: after that its
    port may belong to anybody.
    """
    given = options()
    directory = data_directory()
    embedded = _embedded_url(directory)
    url = (given.url or embedded or DEFAULT_URL).rstrip("/")
    token = given.token
    if token is None and url == embedded:
        with suppress(OSError):
            token = (directory / "admin-token").read_text().strip()
    return Endpoint(url, token or None)


def _embedded_url(directory: Path) -> str | None:
    """Where the embedded server of *directory* listens; None if none runs."""
    try:
        note = json.loads((directory / "server.json").read_text())
        url, pid = str(note["url"]), int(note["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return url.rstrip("/") if _is_alive(pid) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's process, but a process
        return True
    return True
