"""Reads the values of options, and explains invalid ones in the operator's terms."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from stead.config import options
from stead.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.config.written import Places

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
