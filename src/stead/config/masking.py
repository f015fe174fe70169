"""Values of options for people to read: without what is secret in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from stead.config.database_url import MASK, masked_parameters

if TYPE_CHECKING:
    from oslo_config.cfg import _SupportsLog

# To the last `@`: a password may have others, and to hide too much of a strange URL is better than too little.
_PASSWORD = re.compile(r"(://[^\s:/@]*):\S*@")
_QUERY = re.compile(r"(?<=\?)[^\s#]+")
_PARAMETERS = "connection_parameters"


def masked(name: str, value: Any) -> Any:
    """*value* of the option *name*, which is not secret as a whole, without the passwords of URLs in it."""
    if isinstance(value, list | tuple):
        return [masked(name, each) for each in value]
    if isinstance(value, dict):
        return {key: masked(name, each) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    if name == _PARAMETERS:
        return masked_parameters(value)
    if "://" not in value:
        return value
    return _QUERY.sub(lambda found: masked_parameters(found[0]), _PASSWORD.sub(rf"\1:{MASK}@", value))


class MaskedOptions(cfg.ConfigOpts):
    """Options that any library may log without giving a password away."""

    def log_opt_values(self, logger: _SupportsLog, lvl: int) -> None:
        """Log all values, without those of secret options and without the passwords in others."""
        super().log_opt_values(_MaskingLog(logger), lvl)


class _MaskingLog:
    def __init__(self, logger: _SupportsLog) -> None:
        self._logger = logger

    def log(self, level: int, msg: object, *args: object) -> None:
        """Log a line of the list of options: its arguments are a name and a value, or paths."""
        name = str(args[0]).rpartition(".")[2] if args else ""
        self._logger.log(level, msg, *(masked(name, each) for each in args))
