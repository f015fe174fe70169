"""What users type in options: inventories, planned changes, durations and files; and the shared options."""

from __future__ import annotations

import re
import sys
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from stead.cli.errors import CommandError
from stead.cli.suggestions import suggestion

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


def name_values(command: Any) -> None:
    """Set the metavar of each parameter of *command* and all its subcommands to a noun; flags get none.

    An explicit ``metavar`` of a parameter is kept.
    """
    for below in getattr(command, "commands", {}).values():
        name_values(below)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.metavar = parameter.metavar or _noun(parameter)
            parameter.display_type_rich = _nothing  # otherwise Typer shows the type beside the metavar
        else:
            parameter.metavar = "" if parameter.is_flag else parameter.metavar or _noun(parameter)
    all_parameters = command.get_params

    def without_types(context: Any) -> Any:
        parameters = all_parameters(context)
        for parameter in parameters:
            if getattr(parameter, "is_flag", False) or parameter.is_eager:  # options that Typer adds, such as --help
                parameter.metavar = ""
        return parameters

    command.get_params = without_types


def _noun(parameter: Any) -> str:
    """The last word of the name: ``TYPE`` of ``--consumer-type``."""
    name = str(parameter.name)
    return _NOUNS.get(name) or name.rstrip("_").rpartition("_")[2].upper()


def _nothing(**_: Any) -> None:
    """No type."""


# The options that every command shares.


@dataclass(frozen=True, slots=True)
class Options:
    """The shared options, from the command line or the environment; None if not given.

    Attributes:
        from_environment: names of the above fields whose values come from the environment.
    """

    url: str | None = None
    token: str | None = field(default=None, repr=False)
    data_dir: Path | None = None
    json: bool = False
    from_environment: frozenset[str] = frozenset()


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


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def read_age(option: str, text: str) -> timedelta:
    """Parse a duration.

    Raises:
        CommandError: *text* is not a duration; the message names *option*.
    """
    match = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if match is None:
        raise CommandError(f"{option} {text}: expected a span such as 90s, 30m, 12h or 7d")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


def age_text(age: timedelta) -> str:
    """The duration in its largest whole unit: ``3d``."""
    seconds = max(int(age.total_seconds()), 0)
    unit = next((unit for unit in "dhm" if seconds >= _SECONDS[unit]), "s")
    return f"{seconds // _SECONDS[unit]}{unit}"
