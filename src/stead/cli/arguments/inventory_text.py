"""Parses inventories in options: ``VCPU=64`` or ``VCPU:reserved=2,allocation_ratio=4``."""

from __future__ import annotations

from typing import Any

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
