"""The log: as the options of oslo.log say, or one JSON object a line.

Whatever a record has under ``extra`` (a mapping) is shown by the two JSON forms only, ours and that of oslo.log; the
text lines are those that existing tools know.
"""

from __future__ import annotations

import logging
import traceback
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
from oslo_log import log

from stead.observe.request_context import NameRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oslo_config import cfg

_log = logging.getLogger(__name__)

_NAME_REQUEST = NameRequest()


def set_up(conf: cfg.ConfigOpts, *, json_lines: bool, version: str, mask: Callable[[str], str]) -> None:
    """Let this process log as *conf* says, to stderr where it does not say anything else.

    Args:
        mask: takes the secrets out of a line, whichever library wrote it.

    Raises:
        ValueError: it can not; the message is one line.
    """
    if not (conf.log_file or conf.log_dir or conf.use_journal or conf.use_syslog):
        conf.set_default("use_stderr", True)  # the library would write to stdout, where commands give their answers
    logging.getLogger("alembic").setLevel(logging.WARNING)  # unless default_log_levels says otherwise
    try:
        log.setup(conf, "placement", version)
    except (OSError, ValueError, RuntimeError, log.LogConfigError) as error:
        raise ValueError(f"cannot set up the log: {' '.join(str(error).split())}") from error
    sql = conf.placement_database.connection_debug
    if sql >= 50:  # past SQLAlchemy's `echo`, which writes to stdout if it finds no handler of its own
        logging.getLogger("sqlalchemy.engine").setLevel(logging.INFO if sql < 100 else logging.DEBUG)
    if json_lines and not conf.log_config_append:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
    for handler in _handlers():
        handler.addFilter(_NAME_REQUEST)
        handler.setFormatter(Masking(handler.formatter or logging.Formatter(), mask))
    if conf.log_options:
        conf.log_opt_values(_log, logging.DEBUG)


def _handlers() -> Iterator[logging.Handler]:
    """Those of all loggers: with ``log_config_append`` the operator may have given some to any of them."""
    for logger in [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]:
        if isinstance(logger, logging.Logger):
            yield from logger.handlers


@contextmanager
def held_back(name: str) -> Iterator[None]:
    """Let what the logger *name* and those below it are told go to the log as it is at the end of the block.

    What is said of the configuration is said before the log is set up as the configuration has it.
    """
    logger, held = logging.getLogger(name), _Held()
    logger.addHandler(held)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = True
        logger.removeHandler(held)
        for record in held.records:
            logging.getLogger(record.name).handle(record)


@contextmanager
def silenced(name: str) -> Iterator[None]:
    """Drop what the logger *name* and those below it are told: it was logged before, when the same was done first."""
    logger, held = logging.getLogger(name), _Held()
    logger.addHandler(held)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = True
        logger.removeHandler(held)


class _Held(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Masking(logging.Formatter):
    """What another formatter makes of a record, without secrets, in its traceback too."""

    def __init__(self, formatter: logging.Formatter, mask: Callable[[str], str]) -> None:
        super().__init__()
        self._formatter = formatter.inner if isinstance(formatter, Masking) else formatter
        self._mask = mask

    @property
    def inner(self) -> logging.Formatter:
        """The other formatter."""
        return self._formatter

    def format(self, record: logging.LogRecord) -> str:
        """The text of the record."""
        text: Any = self._formatter.format(record)
        return self._masked(text)  # type: ignore[no-any-return]  # that for Fluentd makes a dict

    def _masked(self, found: Any) -> Any:
        if isinstance(found, str):
            return self._mask(found)
        if isinstance(found, dict):
            return {key: self._masked(value) for key, value in found.items()}
        if isinstance(found, list | tuple):
            return [self._masked(value) for value in found]
        return found


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        context = getattr(record, "context", None)
        for name in ("request_id", "global_request_id"):
            if value := getattr(context, name, None):
                line[name] = value
        line.update(getattr(record, "extra", {}))
        if record.exc_info:
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
