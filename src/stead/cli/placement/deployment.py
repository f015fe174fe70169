"""Configuration, log and database for the commands with the names of an existing deployment's commands."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stead import __version__
from stead.printing import one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from oslo_config import cfg

    from stead.config import Settings
    from stead.store.protocol.store import Store

CANNOT_START = 1


def read_arguments(
    arguments: Sequence[str],
    *,
    program: str,
    description: str,
    commands: Callable[[argparse._SubParsersAction[argparse.ArgumentParser]], None],
) -> cfg.ConfigOpts:
    """The command line of *program* and the configuration, of which it is part; ``conf.command`` has the command.

    Args:
        commands: adds the commands and their arguments to the parser.

    Raises:
        ConfigError: a configuration file, or the log that the command line requests, cannot be used.
        SystemExit: wrong usage (2), or after ``--help`` and ``--version`` (0).
    """
    from oslo_config import cfg

    from stead.config import read_command_line, said_of_log

    command = cfg.SubCommandOpt("command", title="commands", handler=commands)
    conf = read_command_line(arguments, program=program, description=description, version=__version__, commands=command)
    if said := said_of_log(arguments, command):
        _log_as_told(conf, said)
    return conf


def _log_as_told(conf: cfg.ConfigOpts, said: set[str]) -> None:
    """Log to the destination on the command line, if it names one.

    The options in files are for the service's log. These commands often run as root, and the service could not write
    to a log file that root has created.
    """
    from stead.config import ConfigError
    from stead.config.masking import mask_of
    from stead.observe.log import set_up

    for name in {"log_file", "log_dir", "log_config_append", "use_syslog", "use_journal"} - said:
        conf.set_override(name, None)
    try:
        set_up(conf, json_lines=conf.stead.log_json, version=__version__, mask=mask_of(conf))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def load_deployment(conf: cfg.ConfigOpts) -> Settings:
    """The settings of the deployment, which must be configured: these commands do not support the embedded mode.

    Raises:
        ConfigError: the configuration cannot be used, or names no database.
    """
    from stead.config import ConfigError, settings_of

    settings = settings_of(conf)
    if settings.embedded:
        raise ConfigError("there is no configuration: [placement_database] connection is required")
    return settings


@contextmanager
def open_database(settings: Settings) -> Iterator[Store]:
    """The deployment's database in its present state, at any revision."""
    from stead.application import database_of
    from stead.store.protocol.store import Store

    store = Store(database_of(settings.database), write_timeout=settings.database.write_timeout)
    try:
        yield store
    finally:
        store.close()


def complain(command: str, reason: Exception) -> int:
    """Print why *command* cannot start; returns the exit code."""
    print(one_line(f"{command}: {reason}"), file=sys.stderr)
    return CANNOT_START
