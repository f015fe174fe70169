"""The contents of configuration files, option by option; explains invalid and unknown ones to operators."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from stead.config import options

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path


NO_SUCH_OPTION = "a value refers to an option that does not exist: write `$$` where `$` is meant"


def called(group: str, opt: cfg.Opt) -> Iterator[tuple[str, str]]:
    """The group and the name under which an option may be written, deprecated ones last."""
    yield group, str(opt.dest)
    for old in opt.deprecated_opts:
        yield old.group or group, (old.name or str(opt.dest)).replace("-", "_")


def names_of(conf: cfg.ConfigOpts) -> dict[str, set[str]]:
    """All names under which the options of *conf* may be written, by group."""
    names: dict[str, set[str]] = {}
    for group, opt in options.known_to(conf):
        for group_name, name in called(group, opt):
            names.setdefault(group_name, set()).add(name)
    return names


def value_of(conf: cfg.ConfigOpts, group: str, opt: cfg.Opt, places: Places) -> Any:
    """The value of an option in *conf*.

    Raises:
        ConfigError: it is invalid. The message names the option and its place, and has no secret.
    """
    try:
        return getattr(conf if group == "DEFAULT" else conf[group], str(opt.dest))
    except (cfg.NoSuchOptError, cfg.TemplateSubstitutionError):
        # oslo.config's own message may contain part of a password; `from None` keeps it out of tracebacks too.
        reason = "it " + NO_SUCH_OPTION.removeprefix("a value ")
    except (cfg.Error, ValueError) as error:
        reason = "that is no value for it" if opt.secret else _one_line(error.__context__ or error)
    place = place_of(group, opt, places)
    raise ConfigError(f"[{group}] {opt.dest}{place and f' ({place})'}: {reason}")


def place_of(group: str, opt: cfg.Opt, places: Places) -> str:
    """The variable or the file that sets an option; empty if none does."""
    variable = f"OS_{group}__{opt.dest}".upper()
    if variable in os.environ:
        return variable
    return next((places[name] for name in called(group, opt) if name in places), "")


def explained(conf: cfg.ConfigOpts, error: Exception, places: Places) -> ConfigError:
    """The message after *error* occurred while reading *conf*: it names the first option with an invalid value."""
    for group, opt in options.known_to(conf):
        try:
            value_of(conf, group, opt, places)
        except ConfigError as problem:
            return problem
    if isinstance(error, cfg.NoSuchOptError | cfg.TemplateSubstitutionError):
        return ConfigError(NO_SUCH_OPTION)
    return ConfigError(_one_line(error))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


# The contents of the configuration files, option by option, including unknown options.


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


# The error of an invalid configuration.


class ConfigError(Exception):
    """The configuration cannot be used. ``str(error)`` is one line for the operator; it never holds a secret."""
