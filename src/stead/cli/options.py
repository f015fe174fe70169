"""The options that every command shares."""

from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """The shared options, from the command line or the environment; None if not given.

    Attributes:
        from_environment: names of the above fields whose values come from the environment.
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
    """Make *given* the shared options of all code that runs from now on."""
    _current.set(given)


def chosen_data_dir() -> Path | None:
    """The value of ``--data-dir``; None if only the environment names a directory, which a configuration overrides."""
    return None if "data_dir" in options().from_environment else options().data_dir


def data_directory() -> Path:
    """The directory of an embedded Stead for its database, its tokens and its address; an absolute path."""
    if chosen := options().data_dir:
        return chosen.expanduser().absolute()  # as the server interprets it
    from platformdirs import user_data_dir

    return Path(user_data_dir("stead")).absolute()
