"""The configuration: oslo.config in, frozen :class:`Settings` out. All other packages receive plain values."""

from stead.config.options import list_opts
from stead.config.settings import (
    AllocationSettings,
    AuthStrategy,
    CandidateSettings,
    CorsSettings,
    DatabaseSettings,
    Settings,
    WatchSettings,
    load,
    read_command_line,
    read_conf,
    resolve_data_dir,
    said_of_log,
    settings_of,
)
from stead.config.values import ConfigError

__all__ = [
    "AllocationSettings",
    "AuthStrategy",
    "CandidateSettings",
    "ConfigError",
    "CorsSettings",
    "DatabaseSettings",
    "Settings",
    "WatchSettings",
    "list_opts",
    "load",
    "read_command_line",
    "read_conf",
    "resolve_data_dir",
    "said_of_log",
    "settings_of",
]
