"""The contents of the configuration files, option by option, including unknown options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from oslo_config import cfg

from stead.config import options
from stead.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

OWN_GROUP = "stead"

Places = Mapping[tuple[str, str], str]
"""The place of each option that is set, by group and name."""


@dataclass(frozen=True, slots=True)
class Written:
    """An option as written; its group in lower case, since case does not matter (except DEFAULT)."""

    group: str
    name: str
    place: str  # a file, or an environment variable


def written_in(files: Sequence[Path], dirs: Sequence[Path]) -> list[Written]:
    """Every option in *files* and in the ``*.conf`` files of *dirs*, in the order in which they are read.

    Raises:
        ConfigError: a file is unreadable or malformed.
    """
    written = []
    for path in [*files, *(path for directory in dirs for path in sorted(directory.glob("*.conf")))]:
        sections: dict[str, dict[str, list[str]]] = {}
        try:
            cfg.ConfigParser(str(path), sections).parse()
        except OSError as error:
            raise ConfigError(f"configuration file {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"configuration file {path}: {error.reason} (byte {error.start}); it must be UTF-8"
            ) from error
        except (cfg.Error, cfg.ParseError, ValueError) as error:
            raise ConfigError(f"configuration file {path}: {' '.join(str(error).split())}") from error
        for group, values in sections.items():
            known_as = group if group == "DEFAULT" else group.lower()
            written += [Written(known_as, name, str(path)) for name in values]
    return written


def places_in(options: Sequence[Written]) -> Places:
    """For each option, the place that takes effect."""
    return {(option.group, option.name): option.place for option in options}


def require_known(written: Sequence[Written]) -> None:
    """Refuse unknown options in Stead's own group; other groups may have options of other programs.

    Raises:
        ConfigError: suggests the option with the most similar name.
    """
    names = [str(known_option.dest) for known_option in options.GROUPS["stead"]]
    for option in [*written, *_of_environment()]:
        if option.group == OWN_GROUP and option.name not in names:
            nearest = get_close_matches(option.name.lower(), names, n=1, cutoff=0.0)[0]
            raise ConfigError(f"[{OWN_GROUP}] has no option {option.name} ({option.place}): the nearest is {nearest}")


def _of_environment() -> Iterator[Written]:
    prefix = f"OS_{OWN_GROUP.upper()}__"
    for variable in sorted(os.environ):
        if variable.startswith(prefix):
            yield Written(OWN_GROUP, variable.removeprefix(prefix).lower(), variable)
