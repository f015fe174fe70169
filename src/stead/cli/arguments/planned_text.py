"""Parses planned changes in options: ``VCPU=8`` or ``host-*:VCPU=8``, ``host-7=3``, ``host-7:HW_CPU_X86_AVX2``."""

from __future__ import annotations

from dataclasses import dataclass

from stead.cli.errors import CommandError

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
