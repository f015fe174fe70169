"""Nova's flavors as candidate queries: what nova requests for an instance of each.

The input is the output of ``openstack flavor list -f json --long``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from stead.client.errors import InvalidRequest
from stead.client.request import Group, Request
from stead.domain.flavor import FLAVOR_NAME, FLAVOR_NAME_LENGTH

Json = dict[str, Any]

_COLUMNS = ("Name", "VCPUs", "RAM", "Disk", "Ephemeral", "Swap", "Properties")
_MB_PER_GB = 1024

_OF_GROUP = re.compile(r"(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.+)")
_PROPERTY = re.compile(r"([^=]+)='(.*?)'(?:, (?=[^=]+=')|$)", re.DOTALL)
"""One of ``key='value', key2='value2'``; a value may have commas and quotes in it."""

_DEDICATED = ("hw:cpu_policy", "dedicated")
"""The extra spec with which nova requests PCPU instead of VCPU."""


class NotFlavors(Exception):
    """The text is not the output of the command; the message says where."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A flavor as a candidate query. *ignored* are the keys of extra specs that have no part in it."""

    name: str
    query: str
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Untranslated:
    """A flavor that has no query, and the reason."""

    name: str
    reason: str


class _Untranslatable(Exception):
    """The reason why a flavor has no query."""


def read_flavors(text: str) -> list[Translated | Untranslated]:
    """The flavors of the command's output, in its order.

    Raises:
        NotFlavors
    """
    try:
        records = json.loads(text)
    except ValueError as error:
        raise NotFlavors(f"not JSON: {error}") from error
    if not isinstance(records, list):
        raise NotFlavors("not a list of flavors")
    flavors: dict[str, Translated | Untranslated] = {}
    for number, record in enumerate(records, 1):
        name = _name_of(number, record)
        try:
            if name in flavors:
                raise _Untranslatable("the file has two flavors of this name")
            flavors[name] = _translated(name, record)
        except (_Untranslatable, InvalidRequest) as error:
            flavors[name] = Untranslated(name, str(error))
    return list(flavors.values())


def _name_of(number: int, record: Any) -> str:
    if not isinstance(record, dict):
        raise NotFlavors(f"flavor {number} is not an object")
    for column in _COLUMNS:
        if column not in record:
            raise NotFlavors(f"flavor {number} has no {column}; use `openstack flavor list -f json --long`")
    return str(record["Name"])


def _translated(name: str, record: Json) -> Translated:
    if not re.fullmatch(FLAVOR_NAME, name) or len(name) > FLAVOR_NAME_LENGTH:
        raise _Untranslatable(
            f"a name has up to {FLAVOR_NAME_LENGTH} of the characters A-Z a-z 0-9 _ . : + -, a letter or a digit first"
        )
    specs = _extra_specs(record["Properties"])
    amounts: dict[str, dict[str, int]] = {"": _amounts(record)}
    traits: dict[str, dict[str, list[str]]] = {"required": {}, "forbidden": {}}
    ignored = []
    if specs.get(_DEDICATED[0]) == _DEDICATED[1] and "VCPU" in amounts[""]:
        amounts[""] = {"PCPU" if key == "VCPU" else key: amount for key, amount in amounts[""].items()}
        # It has had its effect, so it is not among the ignored ones.
        del specs[_DEDICATED[0]]
    policy = specs.pop("group_policy", "none")
    if policy not in ("none", "isolate"):
        raise _Untranslatable(f"group_policy is none or isolate, not {policy!r}")
    for key, value in specs.items():
        match = _OF_GROUP.fullmatch(key)
        if match is None:
            ignored.append(key)
            continue
        kind, group, term = match[1], match[2] or "", match[3]
        if kind == "resources":
            amounts.setdefault(group, {})[term] = _number(key, value)
        elif value in traits:
            traits[value].setdefault(group, []).append(term)
        else:
            raise _Untranslatable(f"{key} is required or forbidden, not {value!r}")
    requested = {
        group: nonzero for group, group_amounts in amounts.items() if (nonzero := _without_zeros(group_amounts))
    }
    required, forbidden = traits["required"], traits["forbidden"]
    for group in sorted({*required, *forbidden} - requested.keys()):
        raise _Untranslatable(f"it has traits for group {group!r}, but no resources")
    groups = [
        Group(group, group_amounts, required=required.get(group, ()), forbidden=forbidden.get(group, ()))
        for group, group_amounts in requested.items()
    ]
    return Translated(name, str(Request(*groups, isolate=policy == "isolate")), tuple(sorted(ignored)))


def _amounts(record: Json) -> dict[str, int]:
    """The amounts of a flavor before its extra specs, as nova requests them."""
    # Nova rounds swap up to whole gigabytes.
    swap = -(-_number("Swap", record["Swap"] or 0) // _MB_PER_GB)
    disk = _number("Disk", record["Disk"]) + _number("Ephemeral", record["Ephemeral"] or 0) + swap
    amounts = {"VCPU": _number("VCPUs", record["VCPUs"]), "MEMORY_MB": _number("RAM", record["RAM"]), "DISK_GB": disk}
    return _without_zeros(amounts)


def _without_zeros(amounts: dict[str, int]) -> dict[str, int]:
    """An amount of 0 means that the class is not requested."""
    return {name: amount for name, amount in amounts.items() if amount}


def _number(name: str, value: Any) -> int:
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch("[0-9]{1,10}", text, re.ASCII):
        raise _Untranslatable(f"{name} is not a number of at least 0: {text!r}")
    return int(text)


def _extra_specs(properties: Any) -> dict[str, str]:
    """The extra specs, which newer clients write as an object and older ones as ``key='value', …``."""
    if properties is None:
        return {}
    if isinstance(properties, dict):
        return {str(key): str(value) for key, value in properties.items()}
    if not isinstance(properties, str):
        raise _Untranslatable("its Properties are neither an object nor text")
    specs: dict[str, str] = {}
    place = 0
    while place < len(properties):
        match = _PROPERTY.match(properties, place)
        if match is None:
            raise _Untranslatable(f"its Properties are not of the form key='value': {properties[place:]!r}")
        specs[match[1]] = match[2]
        place = match.end()
    return specs
