"""Database URLs, and the values of options for display, without secrets."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, quote_plus, unquote

from oslo_config import cfg
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from stead.config.values import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Match up to the last `@`: a password may contain `@`, and masking too much of a malformed URL is the safer error.
_PASSWORD = re.compile(r"(://[^\s:/@]*):\S*@")
_IN_A_LINE = re.compile(r"""(://[^\s:/@"'<>]*):[^\s/@"'<>]+@""")  # in a line, other text follows the URL
_QUERY = re.compile(r"(?<=\?)[^\s#]+")
_PARAMETERS = "connection_parameters"


def masked(name: str, value: Any) -> Any:
    """*value* of the option *name* without the passwords of URLs in it. For options that are not secret themselves."""
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
    return _QUERY.sub(lambda match: masked_parameters(match[0]), _PASSWORD.sub(rf"\1:{MASK}@", value))


class Logger(Protocol):
    """The interface of a logger that oslo.config uses to log its options."""

    def log(self, level: int, msg: object, /, *args: object) -> None:
        """Log one line."""


SHORTEST = 6
"""Minimum length of a secret that is masked in texts. A shorter one would match unrelated text."""


def mask_of(conf: cfg.ConfigOpts) -> Callable[[str], str]:
    """A function that masks the secrets of *conf* in a line of the log; without `MaskedOptions`, only URL passwords."""
    return conf.without_secrets if isinstance(conf, MaskedOptions) else _without_passwords


def _without_passwords(text: str) -> str:
    return _IN_A_LINE.sub(rf"\1:{MASK}@", text) if "://" in text else text


class MaskedOptions(cfg.ConfigOpts):
    """Options that any library may log without revealing a password."""

    def __init__(self) -> None:
        super().__init__()
        self._secrets: re.Pattern[str] | None = None

    def register_opt(
        self, opt: cfg.Opt, group: str | cfg.OptGroup | None = None, cli: bool = False, **how: Any
    ) -> bool:
        """As in the base class. The new value may be a secret, so the list of secrets is rebuilt."""
        self._secrets = None
        return bool(super().register_opt(opt, group, cli, **how))

    def log_opt_values(self, logger: Logger, lvl: int) -> None:
        """Log all values; secret options and passwords in other values are masked."""
        super().log_opt_values(_MaskingLog(logger), lvl)

    def without_secrets(self, text: str) -> str:
        """*text*, a line of the log, with URL passwords and all secret values masked.

        A secret that is also the value of an option that is not secret, such as a user name, is not masked: the name
        would be masked everywhere. Neither is a secret shorter than :data:`SHORTEST`.
        """
        if self._secrets is None:
            self._secrets = _NOTHING  # for lines that are logged while the options are read
            self._secrets = _any_of(*self._known_texts())
        return self._secrets.sub(MASK, _without_passwords(text))

    def _known_texts(self) -> tuple[set[str], set[str]]:
        """All secret values, and all values that are not secret."""
        secret: set[str] = set()
        public: set[str] = {"placement", "keystone", "password", "secret"}
        for group, name in self._names():
            try:
                value = self[name] if group is None else self[group][name]
            except (cfg.Error, ValueError):  # the code that uses the option reports it
                continue
            is_secret = bool(self._get_opt_info(name, group)["opt"].secret)
            for text in _texts(value):
                if is_secret:
                    secret.add(text)
                else:
                    public.add(text)
                for password, rest in _taken_apart(name, text):
                    secret.add(password)
                    public.update(rest)
        return secret, public

    def _names(self) -> Iterator[tuple[str | None, str]]:
        for name in self:
            if isinstance(self._groups.get(name), cfg.OptGroup):
                yield from ((name, each) for each in self[name])
            else:
                yield None, name


_NOTHING = re.compile(r"(?!)")


def _texts(value: Any) -> Iterator[str]:
    """The strings in the value of an option."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _taken_apart(name: str, text: str) -> Iterator[tuple[str, list[str]]]:
    """The passwords of URLs and of parameters in *text*, each with the words beside it that are not secret."""
    for match in _PASSWORD.finditer(text):
        before, _, host = match[0].rpartition("@")
        user, _, password = before.removeprefix("://").partition(":")
        yield password, [user, host]
    for parameters in [text] if name == _PARAMETERS else _QUERY.findall(text):
        for pair in parameters.split("&"):
            if masked_parameters(pair) != pair:
                yield pair.partition("=")[2], []


def _any_of(secret: set[str], public: set[str]) -> re.Pattern[str]:
    """A pattern for the *secret* texts in all forms in which they may be written, except texts that are *public*."""
    spellings = {text for each in secret for text in (each, unquote(each))}
    written = {
        form
        for text in spellings
        if len(text) >= SHORTEST and text not in public
        for form in (text, quote(text), quote(text, safe=""), quote_plus(text), *_as_json(text), repr(text)[1:-1])
    }
    if not written:
        return _NOTHING
    # The longest first, because the first alternative wins: a secret within another would leave the rest visible.
    return re.compile("|".join(re.escape(text) for text in sorted(written, key=len, reverse=True)))


def _as_json(text: str) -> Iterator[str]:
    for ensure_ascii in (True, False):
        yield json.dumps(text, ensure_ascii=ensure_ascii)[1:-1]


class _MaskingLog:
    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def log(self, level: int, msg: object, *args: object) -> None:
        """Log a line of the list of options; its arguments are a name and a value, or paths."""
        name = str(args[0]).rpartition(".")[2] if args else ""
        self._logger.log(level, msg, *(masked(name, each) for each in args))


# Completes the operator's database URL to one that SQLAlchemy accepts.


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
