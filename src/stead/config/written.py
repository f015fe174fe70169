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
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

OWN_GROUP = "stead"

_LIBRARY_GROUPS = frozenset(
    {
        *("audit_middleware_notifications", "barbican", "cache", "coordination", "database", "healthcheck"),
        *("key_manager", "keystone_authtoken", "osprofiler", "profiler", "ssl", "vault"),
    }
)
"""Sections of OpenStack libraries, and those that begin with ``oslo_``: deployments share them between services."""

_SHARED_GROUPS = frozenset({"DEFAULT", "oslo_middleware", "oslo_policy"})
"""Sections that Stead shares with libraries, whose options differ from version to version."""

_LIKENESS = 0.8

_VARIABLE = "OS_"
"""Begins the name of a variable `OS_<GROUP>__<OPTION>`."""

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


def doubts(written: Sequence[Written], options_read: Mapping[str, Collection[str]]) -> list[str]:
    """Sections and options that have no effect and look like mistakes, each in one line.

    Sections of libraries are left out, since the files of existing deployments have them.

    Args:
        options_read: the names of all options that are read, by group.
    """
    lines: dict[str, None] = {}  # a set that keeps the order
    for each in [*written, *_of_environment()]:
        if each.group in options_read:
            nearest = get_close_matches(each.name.lower(), options_read[each.group], n=1, cutoff=_LIKENESS)
            if each.name in options_read[each.group] or (each.group in _SHARED_GROUPS and not nearest):
                continue
            line = f"[{each.group}] has no option {each.name} ({each.place}), so it has no effect."
        elif each.group in _LIBRARY_GROUPS or each.group.startswith("oslo_"):
            continue
        else:
            nearest = get_close_matches(each.group, options_read, n=1, cutoff=_LIKENESS)
            if not nearest and each.place.startswith(_VARIABLE):
                continue  # of another program
            line = f"Stead reads no section [{each.group}] ({each.place}), so it has no effect."
        lines[line + (f" Did you mean {nearest[0]}?" if nearest else "")] = None
    return list(lines)


def _of_environment() -> Iterator[Written]:
    for variable in sorted(os.environ):
        group, separator, name = variable.removeprefix(_VARIABLE).partition("__")
        if variable.startswith(_VARIABLE) and separator and group and name:
            yield Written("DEFAULT" if group == "DEFAULT" else group.lower(), name.lower(), variable)
