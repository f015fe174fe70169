"""What the commands with an existing deployment's names share: its configuration, and its database."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from stead.config import Settings
    from stead.store.transaction import Store

CANNOT_START = 1


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """Let *parser* take the options that say where the configuration is."""
    parser.add_argument(
        "--config-file",
        type=Path,
        action="append",
        metavar="PATH",
        help="Configuration file instead of the usual ones; may be repeated, and later ones count.",
    )
    parser.add_argument(
        "--config-dir",
        type=Path,
        action="append",
        metavar="DIR",
        help="Directory of *.conf files, read after the files; may be repeated.",
    )


def load_deployment(arguments: argparse.Namespace) -> Settings:
    """The settings of the deployment. There must be one: these commands do not know the embedded mode.

    Raises:
        ConfigError: the configuration can not be used, or names no database.
    """
    from stead.config import ConfigError, load

    settings = load(arguments.config_file, arguments.config_dir)
    if settings.embedded:
        raise ConfigError("there is no configuration: [placement_database] connection is required")
    return settings


@contextmanager
def open_database(settings: Settings) -> Iterator[Store]:
    """The deployment's database as it is, at whatever revision."""
    from stead.application import database_of
    from stead.store.transaction import Store

    store = Store(database_of(settings.database), write_timeout=settings.database.write_timeout)
    try:
        yield store
    finally:
        store.close()


def complain(command: str, reason: Exception) -> int:
    """Say why *command* can not start; returns the exit code."""
    print(f"{command}: {reason}", file=sys.stderr)
    return CANNOT_START
