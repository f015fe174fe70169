"""Completes the operator's database URL to one that SQLAlchemy accepts."""

from __future__ import annotations

import re
from importlib.util import find_spec

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from stead.config.errors import ConfigError

# For each kind of database: the extra that installs a driver, then (name in the URL, module) of the supported drivers,
# the preferred one first.
_DRIVERS = {
    "postgresql": ("postgresql", [("psycopg", "psycopg")]),
    "mysql": ("mysql", [("mysqldb", "MySQLdb"), ("pymysql", "pymysql")]),
    "mariadb": ("mysql", [("mysqldb", "MySQLdb"), ("pymysql", "pymysql")]),
}


MASK = "***"


def complete_url(url: str, parameters: str = "") -> str:
    """*url* with a driver that is installed, and *parameters* (``a=1&b=2``) appended.

    A driver named in *url* is kept if it is installed and supported. The part after ``://`` is not changed.

    Raises:
        ConfigError: *url* is not an SQLAlchemy URL, or no driver for it is installed. The message has no password.
    """
    scheme, separator, rest = url.partition("://")
    if parameters:
        rest += ("&" if "?" in rest else "?") + parameters
    try:
        make_url(f"{scheme}{separator}{rest}")
    except (ArgumentError, ValueError) as error:
        raise ConfigError(
            "[placement_database] connection is not a database URL (driver://user:password@host/name)"
        ) from error
    return f"{_with_driver(scheme)}{separator}{rest}"


def masked_url(url: str) -> str:
    """*url* for display: without passwords before the host or among the parameters."""
    try:
        shown = make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return MASK  # a malformed URL may have a password anywhere
    base, separator, parameters = shown.partition("?")
    return f"{base}{separator}{masked_parameters(parameters)}"


def masked_parameters(parameters: str) -> str:
    """``a=1&b=2`` with the values masked that may be secrets."""
    return re.sub(r"(?i)(?<![^&])([^=&]*(?:pass|pwd|secret|token|key)[^=&]*)=[^&]*", rf"\1={MASK}", parameters)


def _with_driver(scheme: str) -> str:
    kind, _, driver = scheme.partition("+")
    kind = "postgresql" if kind == "postgres" else kind
    if kind not in _DRIVERS:
        return scheme
    extra, drivers = _DRIVERS[kind]
    installed = [name for name, module in drivers if find_spec(module)]
    if driver in installed:
        return f"{kind}+{driver}"
    if not installed:
        raise ConfigError(f"no driver for {kind} databases is installed: pip install 'stead[{extra}]'")
    return f"{kind}+{installed[0]}"
