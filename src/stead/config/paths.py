"""The search paths of configuration files and data."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from platformdirs import user_data_path

from stead.config.errors import ConfigError

CONFIG_FILE_VARIABLE = "STEAD_CONFIG_FILE"
CONFIG_DIR_VARIABLE = "STEAD_CONFIG_DIR"
DATA_DIR_VARIABLE = "STEAD_DATA_DIR"
UPSTREAM_DIR_VARIABLE = "OS_PLACEMENT_CONFIG_DIR"
CONFIG_NAME = "placement.conf"


def resolve_data_dir(chosen: Path | None = None) -> Path:
    """Absolute path of the data directory of the embedded mode; it need not exist.

    The first that is set of: *chosen* (``--data-dir``), ``STEAD_DATA_DIR``, the user's data directory.
    """
    if chosen is None and (named := os.environ.get(DATA_DIR_VARIABLE)):
        chosen = Path(named)
    return (chosen or user_data_path("stead")).expanduser().absolute()


def serving_program() -> str | None:
    """The program that runs the service (``uwsgi``, ``mod_wsgi``), in oslo.config's spelling; None for ``stead serve``.

    The main process of ``stead serve`` passes its configuration files to the workers, and searches for none named after
    a program.
    """
    name = Path(sys.argv[0]).name.removesuffix(".py") if sys.argv else ""
    return name if name not in ("", "stead") else None


def find_config_files(program: str | None = None, *, by_variable: bool = True) -> list[Path]:
    """The configuration files to read when the command line names none; empty if there is none.

    ``STEAD_CONFIG_FILE`` and ``STEAD_CONFIG_DIR`` (several paths, separated by ``:``) come first; if one is set, only
    these two apply. Next comes ``placement.conf`` in ``OS_PLACEMENT_CONFIG_DIR``. A file that a variable names is
    returned even if it does not exist, so that a typing error is reported later. Otherwise the result is the first
    ``placement.conf`` in oslo.config's usual places, then the first file there with the name of *program*.

    Args:
        by_variable: whether ``OS_PLACEMENT_CONFIG_DIR`` applies.

    Raises:
        ConfigError: one of the usual places cannot be searched, so that a file there might be missed.
    """
    if _named(CONFIG_FILE_VARIABLE) or _named(CONFIG_DIR_VARIABLE):
        return _named(CONFIG_FILE_VARIABLE)
    if by_variable and (directory := os.environ.get(UPSTREAM_DIR_VARIABLE)):
        return [Path(directory) / CONFIG_NAME]
    return [path for name in _names(program) for path in _first_existing(name)]


def find_config_dirs(program: str | None = None) -> list[Path]:
    """The directories of ``*.conf`` files to read when the command line names none.

    ``STEAD_CONFIG_DIR``, if it or ``STEAD_CONFIG_FILE`` is set. Otherwise the first ``placement.conf.d`` in the usual
    places, and the first such directory of *program*, even if ``OS_PLACEMENT_CONFIG_DIR`` names the file.

    Raises:
        ConfigError: as of :func:`find_config_files`.
    """
    if _named(CONFIG_FILE_VARIABLE) or _named(CONFIG_DIR_VARIABLE):
        return _named(CONFIG_DIR_VARIABLE)
    return [path for name in _names(program) for path in _first_existing(name + ".d")]


def _names(program: str | None) -> list[str]:
    return [CONFIG_NAME, *([f"{program}.conf"] if program else [])]


def _named(variable: str) -> list[Path]:
    return [Path(name) for name in os.environ.get(variable, "").split(os.pathsep) if name]


def _first_existing(name: str) -> list[Path]:
    for directory in _usual_places():
        candidate = directory / name
        try:
            candidate.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ConfigError(f"cannot tell whether {candidate} exists: {error.strerror}") from error
        return [candidate]
    return []


def _usual_places() -> list[Path]:
    """oslo.config's places for the project ``placement``, in order."""
    home = Path("~").expanduser()
    return [home / ".placement", home, Path("/etc/placement"), Path("/etc")]
