"""Reads the configuration of the commands of an existing deployment, whose command line is part of it."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log

from stead.config.masking import MaskedOptions
from stead.config.paths import find_config_dirs, find_config_files
from stead.config.settings import read_into

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_command_line(
    arguments: Sequence[str], *, program: str, description: str, version: str, commands: cfg.SubCommandOpt
) -> cfg.ConfigOpts:
    """The options with their values from the command line of *program*, from files and the environment.

    The command line may have options of oslo.config and oslo.log, then one of *commands*. The files that it names are
    read in its order. If it names no file, the usual files are read; likewise for directories.

    Raises:
        ConfigError: a file or directory is missing, unreadable or malformed.
        SystemExit: wrong usage (2), or after ``--help`` and ``--version`` (0).
    """
    conf = MaskedOptions()
    conf.register_cli_opt(commands)
    named, _ = _parted(arguments)
    return read_into(
        conf,
        named.config_file or find_config_files(program, by_variable=False),
        named.config_dir or find_config_dirs(program),
        arguments,
        dirs_named=bool(named.config_dir),
        program=program,
        description=description,
        version=version,
    )


def said_of_log(arguments: Sequence[str], commands: cfg.SubCommandOpt) -> set[str]:
    """The oslo.log options on a valid command line, under the names that they have in files."""
    conf = cfg.ConfigOpts()  # without files: if both set an option, oslo.config reports only one of the places
    log.register_options(conf)
    ours = set(conf)
    conf.register_cli_opt(commands)
    conf(_parted(arguments)[1], project="placement", default_config_files=[], default_config_dirs=[], use_env=False)
    return {name for name in ours if _is_said(conf, name)}


def _is_said(conf: cfg.ConfigOpts, name: str) -> bool:
    where = conf.get_location(name)
    return where is not None and where.location is cfg.Locations.command_line


def _parted(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Split a command line into configuration files and directories, and all other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config-file", type=Path, action="append", default=[])
    parser.add_argument("--config-dir", type=Path, action="append", default=[])
    with suppress(argparse.ArgumentError):  # for an option without its value, oslo.config prints the usage
        return parser.parse_known_args(arguments)
    return argparse.Namespace(config_file=[], config_dir=[]), [*arguments]
