"""The options that every command shares."""

from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """What was given before or after the command's name, or in the environment; None where nothing was.

    Attributes:
        from_environment: the names of the fields above whose values the environment gave, not the command line.
    """

    url: str | None = None
    token: str | None = field(default=None, repr=False)
    data_dir: Path | None = None
    json: bool = False
    from_environment: frozenset[str] = frozenset()


_current: ContextVar[Options] = ContextVar("stead-options")


def options() -> Options:
    """The shared options of the running command."""
    return _current.get(Options())


def use_options(given: Options) -> None:
    """Make *given* the shared options of everything that runs from here on."""
    _current.set(given)


def data_directory() -> Path:
    """Where an embedded Stead keeps its database, its tokens and the note of where it listens; an absolute path."""
    if chosen := options().data_dir:
        return chosen.expanduser().absolute()  # as the server reads it
    from platformdirs import user_data_dir

    return Path(user_data_dir("stead")).absolute()
