"""The settings of the service, for commands that open its database or its token file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.cli.errors import CommandError
from stead.cli.options import chosen_data_dir

if TYPE_CHECKING:
    from pathlib import Path

    from stead.config import Settings


def service_settings(config_file: list[Path] | None, config_dir: list[Path] | None) -> Settings:
    """The settings of a service with this configuration; creates the directory of an embedded one.

    Raises:
        CommandError: the configuration is invalid, or the directory cannot be created.
    """
    from stead.auth.private_files import private_directory
    from stead.config import ConfigError, load

    try:
        settings = load(config_file or None, config_dir or None, data_dir=chosen_data_dir())
        if settings.embedded:
            private_directory(settings.data_dir)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"data directory {settings.data_dir}: {error.strerror}") from error
    return settings
