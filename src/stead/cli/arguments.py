"""What users type in options: inventories, planned changes, durations and files; and the shared options."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, get_args, get_origin
from uuid import UUID

from stead.cli.errors import CommandError
from stead.cli.suggestions import suggestion
from stead.client.errors import InvalidRequest
from stead.client.times import age, moment, span

if TYPE_CHECKING:
    from datetime import timedelta

DEFAULTS: dict[str, int | float] = {
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 2147483647,
    "step_size": 1,
    "allocation_ratio": 1.0,
}
FIELDS = ("total", *DEFAULTS)
HELP = f"CLASS=TOTAL, or CLASS:FIELD=NUMBER,… with the fields {', '.join(FIELDS)}"


def changed(inventories: dict[str, dict[str, Any]], texts: list[str], removed: list[str]) -> dict[str, dict[str, Any]]:
    """*inventories*, by class, with the changes in *texts* and without those *removed*. Other fields stay.

    Raises:
        CommandError: a text is malformed, a new inventory has no total, or a class to remove does not exist.
    """
    after = {name: dict(record) for name, record in inventories.items()}
    for name in removed:
        if after.pop(name, None) is None:
            raise CommandError(f"there is no inventory of {name} to remove.{suggestion(name, inventories)}")
    for text in texts:
        name, fields = _read(text)
        record = after.setdefault(name, dict(DEFAULTS))
        record.update(fields)
        if "total" not in record:
            raise CommandError(f"--inventory {text}: a new inventory needs a total: {name}:total=…")
    return after


def _read(text: str) -> tuple[str, dict[str, int | float]]:
    name, colon, pairs = text.partition(":")
    if not colon:
        name, equals, total = text.partition("=")
        pairs = f"total={total}" if equals else ""
    fields = {}
    for pair in pairs.split(","):
        key, equals, value = pair.partition("=")
        if not (name and equals):
            raise CommandError(f"--inventory {text}: expected {HELP}")
        if key not in FIELDS:
            raise CommandError(f"--inventory {text}: unknown field {key!r}.{suggestion(key, FIELDS)}")
        fields[key] = _number(text, key, value)
    return name, fields


def _number(text: str, key: str, value: str) -> int | float:
    try:
        return float(value) if key == "allocation_ratio" else int(value)
    except ValueError:
        raise CommandError(f"--inventory {text}: {key} must be a number, not {value!r}") from None


# Parses planned changes in options: ``VCPU=8`` or ``host-*:VCPU=8``, ``host-7=3``, ``host-7:HW_CPU_X86_AVX2``.


GREATEST = 2**63
"""Numbers are below this: JSON is written with integers of 64 bits."""


@dataclass(frozen=True, slots=True)
class InventoryText:
    """A new value of one field of inventories of a class.

    Attributes:
        providers: the UUID, the name or a pattern of names of the providers; None for all that have the class.
        field: as the API calls it.
    """

    providers: str | None
    resource_class: str
    field: str
    value: int | float


def inventory(option: str, field: str, text: str) -> InventoryText:
    """What ``[PROVIDER:]CLASS=NUMBER`` says of *field*.

    Raises:
        CommandError: *text* is malformed.
    """
    providers, colon, assignment = text.rpartition(":")  # a name may have colons, a class has none
    resource_class, equals, number = assignment.partition("=")
    if not (resource_class and equals) or (colon and not providers):
        raise CommandError(f"{option} {text}: expected CLASS=NUMBER or PROVIDER:CLASS=NUMBER")
    try:
        value = float(number) if field == "allocation_ratio" else int(number)
    except ValueError:
        raise CommandError(f"{option} {text}: {number!r} is not a number") from None
    if not abs(value) < GREATEST:  # also not for NaN
        raise CommandError(f"{option} {text}: {number!r} is out of range")
    return InventoryText(providers or None, resource_class, field, value)


def of_provider(option: str, text: str, thing: str) -> tuple[str, str]:
    """The provider and the *thing* of ``PROVIDER:THING``.

    Raises:
        CommandError: *text* is malformed.
    """
    provider, _, name = text.rpartition(":")
    if not (provider and name):
        raise CommandError(f"{option} {text}: expected PROVIDER:{thing}")
    return provider, name


def copies(option: str, text: str) -> tuple[str, int]:
    """The host and the number of ``HOST=COUNT``.

    Raises:
        CommandError: *text* is malformed.
    """
    host, _, number = text.rpartition("=")
    if not host or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise CommandError(f"{option} {text}: expected HOST=COUNT")
    return host, int(number)


# Metavars of options and arguments in help and usage: nouns, such as ``PROJECT``, never Python types.


_NOUNS = {
    "config_dir": "DIRECTORY",
    "config_file": "FILE",
    "data_dir": "DIRECTORY",
    "host": "ADDRESS",
    "limit": "COUNT",
    "shared": "THREADS",
    "port": "NUMBER",
    "threads": "COUNT",
    "workers": "COUNT",
    "wait": "SECONDS",
}
"""Metavars that differ from the parameter's name."""


def adapt_parameters(command: Any) -> None:
    """Let *command* and all its subcommands convert values here, and name them in help by nouns; flags by nothing.

    An explicit ``metavar`` of a parameter is kept.
    """
    for below in getattr(command, "commands", {}).values():
        adapt_parameters(below)
    for parameter in command.params:
        _convert(parameter)
        if parameter.param_type_name == "argument":
            parameter.metavar = parameter.metavar or _noun(parameter)
            parameter.display_type_rich = _nothing  # otherwise Typer shows the type beside the metavar
        else:
            parameter.metavar = "" if parameter.is_flag else parameter.metavar or _noun(parameter)
    all_parameters = command.get_params

    def with_help(context: Any) -> Any:
        parameters = all_parameters(context)
        for parameter in parameters:
            if getattr(parameter, "is_flag", False) or parameter.is_eager:  # options that Typer adds, such as --help
                _convert(parameter)
                parameter.metavar = ""
        return parameters

    command.get_params = with_help


_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class _Conversion:
    """The conversion of a parameter's text to its type: a text, a number, an enumeration, a path or a UUID."""

    kind: Any
    least: float | None
    most: float | None

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value, or the values of a repeatable option; Typer calls this."""
        if param.multiple or param.nargs == -1:
            return () if value is None else [self._one(each, param, ctx) for each in value]
        return None if value is None else self._one(value, param, ctx)

    def _one(self, value: Any, param: Any, ctx: Any) -> Any:
        if not isinstance(value, str) or self.kind is str:
            return value  # such as a default or a flag
        try:
            converted = self._converted(value)
        except ValueError as error:
            from typer import BadParameter

            raise BadParameter(str(error), ctx=ctx, param=param) from None
        return converted

    def _converted(self, text: str) -> Any:
        if issubclass(self.kind, Enum):
            choices = [each.value for each in self.kind]
            if text not in choices:
                raise ValueError(f"{text!r} is not one of {', '.join(choices)}.{suggestion(text, choices)}")
            return self.kind(text)
        if self.kind in (int, float):
            return self._number(text)
        if self.kind is bool:
            return text.lower() in ("1", "true", "yes", "on")
        try:
            return self.kind(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a {self.kind.__name__}") from None

    def _number(self, text: str) -> int | float:
        if self.kind is int:
            if not _WHOLE.fullmatch(text):
                raise ValueError(f"{text!r} is not a whole number")
            number: float = int(text)
        else:
            try:
                number = float(text)
            except ValueError:
                raise ValueError(f"{text!r} is not a number") from None
        if self.least is not None and not number >= self.least:  # not for NaN either
            raise ValueError(f"{text} is less than {self.least:g}, the least that is allowed")
        if self.most is not None and not number <= self.most:
            raise ValueError(f"{text} is more than {self.most:g}, the most that is allowed")
        return number


def _convert(parameter: Any) -> None:
    """Let *parameter* convert its values here.

    Typer converts with pydantic. Its import takes longer than most commands, and its errors have its own words.
    """
    kind = parameter.type_descriptor.annotation
    if get_origin(kind) in (list, Sequence):
        (kind,) = get_args(kind)
    if isinstance(kind, type) and (kind in (str, bool, int, float, UUID) or issubclass(kind, (Enum, Path))):
        information = parameter.type_descriptor.parameter_info
        parameter.get_runtime_param = partial(_same, _Conversion(kind, information.min, information.max))


def _same(conversion: _Conversion) -> _Conversion:
    return conversion


def _noun(parameter: Any) -> str:
    """The last word of the name: ``TYPE`` of ``--consumer-type``."""
    name = str(parameter.name)
    return _NOUNS.get(name) or name.rstrip("_").rpartition("_")[2].upper()


def _nothing(**_: Any) -> None:
    """No type."""


# The options that every command shares.


OUTPUTS = ("table", "wide", "json", "yaml", "csv", "name")
"""The values of ``--output``. The last four are for programs."""


@dataclass(frozen=True, slots=True)
class Options:
    """The shared options, from the command line or the environment; None if not given.

    Attributes:
        output: one of :data:`OUTPUTS`.
        from_environment: names of the above fields whose values come from the environment.
    """

    url: str | None = None
    token: str | None = field(default=None, repr=False)
    data_dir: Path | None = None
    output: str = "table"
    no_color: bool = False
    quiet: bool = False
    raw: bool = False
    from_environment: frozenset[str] = frozenset()

    @property
    def json(self) -> bool:
        """Whether the output is data for programs, which :func:`stead.cli.terminal.print_json` writes."""
        return self.output not in ("table", "wide")


_current: ContextVar[Options] = ContextVar("stead-options")


def options() -> Options:
    """The shared options of the running command."""
    return _current.get(Options())


def use_options(given: Options) -> None:
    """Make *given* the shared options of all code that runs from now on."""
    _current.set(given)


def chosen_data_dir() -> Path | None:
    """The value of ``--data-dir``; None if only the environment names a directory, which a configuration overrides."""
    return None if "data_dir" in options().from_environment else options().data_dir


def data_directory() -> Path:
    """The directory of an embedded Stead for its database, its tokens and its address; an absolute path.

    Raises:
        CommandError: the user has no home directory.
    """
    from platformdirs import user_data_dir

    try:  # as the server interprets it
        return (options().data_dir or Path(user_data_dir("stead"))).expanduser().absolute()
    except RuntimeError as error:
        raise CommandError(
            "this user has no home directory: use --url or --data-dir, or set STEAD_URL, STEAD_DATA_DIR or HOME"
        ) from error


# Files that a command reads whole; ``-`` is standard input.


_PIECE = 1024 * 1024  # bytes


def read_file(path: Path, limit: int, advice: str = "") -> bytes:
    """The whole file or stream; reads at most one piece beyond *limit* bytes.

    Args:
        advice: what to do about a file that is too large, for the error message.

    Raises:
        CommandError: it cannot be read, or is longer than *limit* bytes, as an endless device is.
    """
    try:
        if path != Path("-"):
            with path.open("rb") as file:
                return _up_to(limit, file, name_of(path), advice)
        if sys.stdin is None:  # for example after `<&-`
            raise CommandError("standard input is closed")
        return _up_to(limit, sys.stdin.buffer, name_of(path), advice)
    except OSError as error:
        raise CommandError(f"{name_of(path)}: {error.strerror or error}") from error


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file or stream of any length, one after the other.

    Raises:
        CommandError: it cannot be read.
    """
    try:
        if path != Path("-"):
            with path.open(errors="replace") as file:
                yield from file
        elif sys.stdin is None:
            raise CommandError("standard input is closed")
        else:
            yield from (line.decode(errors="replace") for line in sys.stdin.buffer)
    except OSError as error:
        raise CommandError(f"{name_of(path)}: {error.strerror or error}") from error


def _up_to(limit: int, stream: BinaryIO, name: str, advice: str) -> bytes:
    data = bytearray()
    while piece := stream.read(_PIECE):
        data += piece
        if len(data) > limit:
            raise CommandError(f"{name}: larger than {limit // 1024 // 1024} MiB{advice and f'; {advice}'}")
    return bytes(data)


def name_of(path: Path) -> str:
    """The name of the file in messages."""
    return "standard input" if path == Path("-") else str(path)


# Durations in options, such as ``90s``, ``30m``, ``12h``, ``7d``, and in tables.


_PLAIN_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def read_moment(option: str, text: str) -> str:
    """The time of an option: a span from now, or a time with a zone.

    Raises:
        CommandError: *text* is neither.
    """
    try:
        return moment(text)
    except InvalidRequest as error:
        raise CommandError(f"{option}: {error}") from error


def read_seconds(option: str, text: str) -> float:
    """The seconds of an option that takes a span, such as ``10m``, or a plain number of seconds.

    Raises:
        CommandError: *text* is neither.
    """
    if _PLAIN_SECONDS.fullmatch(text):
        return float(text)
    try:
        return span(text).total_seconds()
    except InvalidRequest as error:
        raise CommandError(f"{option}: {error}") from error


def read_age(option: str, text: str) -> timedelta:
    """How long ago *text* is: a span such as ``12h``, or a time with a zone.

    Raises:
        CommandError: *text* is neither; the message names *option*.
    """
    try:
        return age(text)
    except InvalidRequest as error:
        raise CommandError(f"{option}: {error}") from error


def age_text(age: timedelta) -> str:
    """The duration in its largest whole unit: ``3d``."""
    seconds = max(int(age.total_seconds()), 0)
    unit = next((unit for unit in "dhm" if seconds >= _SECONDS[unit]), "s")
    return f"{seconds // _SECONDS[unit]}{unit}"
