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
from stead.domain.request import FLAVOR_NAME, FLAVOR_NAME_LENGTH

Json = dict[str, Any]

_COLUMNS = ("Name", "VCPUs", "RAM", "Disk", "Ephemeral", "Swap", "Properties")
_MB_PER_GB = 1024

_OF_GROUP = re.compile(r"(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.+)")
_PROPERTY = re.compile(r"([^=]+)='(.*?)'(?:, (?=[^=]+=')|$)", re.DOTALL)
"""One of ``key='value', key2='value2'``; a value may have commas and quotes in it."""

_RESTRICTING = re.compile(
    r"accel:device_profile|aggregate_instance_extra_specs:.*|capabilities:.*|hw:cpu_(cores|max_.*|sockets|threads)"
    r"|hw:mem_encryption_model|hw:mem_page_size|hw:numa_.*|hw:pci_numa_affinity_policy|hw:tpm_model"
    r"|pci_passthrough:alias"
)
"""Extra specs without a part in the query by which nova nevertheless selects hosts or devices."""

_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_THREADS = {"isolate": "forbidden", "require": "required"}
"""What `hw:cpu_thread_policy` says of the trait HW_CPU_HYPERTHREADING."""


class NotFlavors(Exception):
    """The text is not the output of the command; the message says where."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A flavor as a candidate query. *ignored* are the keys of extra specs that have no part in it."""

    name: str
    query: str
    ignored: tuple[str, ...]

    @property
    def restricting(self) -> tuple[str, ...]:
        """The ignored keys by which nova selects hosts or devices: the flavor fits at most as often as counted."""
        return tuple(key for key in self.ignored if _RESTRICTING.fullmatch(key))


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
    except RecursionError as error:
        raise NotFlavors("nested too deep for a list of flavors") from error
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
    _translate_cpus(specs, amounts[""], traits)
    _translate_devices(specs, amounts[""], traits)
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


def _translate_cpus(specs: dict[str, str], amounts: dict[str, int], traits: dict[str, dict[str, list[str]]]) -> None:
    """Take the extra specs of CPUs from *specs*, and request what nova requests for them.

    Source: nova's page "Extra Specs", and what its scheduler sends for each.
    """
    policy = specs.pop("hw:cpu_policy", "shared")
    masks = [specs.pop(key, None) for key in ("hw:cpu_dedicated_mask", "hw:cpu_realtime_mask")]
    is_realtime = specs.pop("hw:cpu_realtime", "").lower() in _TRUE
    emulator, threads = specs.pop("hw:emulator_threads_policy", ""), specs.pop("hw:cpu_thread_policy", "")
    count = amounts.get("VCPU", 0)
    if policy == "mixed":
        mask = masks[0] or (masks[1] if is_realtime else None)
        if mask is None:
            raise _Untranslatable("hw:cpu_policy=mixed needs hw:cpu_dedicated_mask")
        dedicated = len(_masked(mask, count))
    elif policy == "dedicated":
        dedicated = count
    elif policy == "shared":
        return
    else:
        raise _Untranslatable(f"hw:cpu_policy is dedicated, mixed or shared, not {policy!r}")
    if not count:
        return
    others = {name: amount for name, amount in amounts.items() if name != "VCPU"}
    amounts.clear()
    # Nova reserves one dedicated CPU for the threads of the emulator.
    cpus = {"VCPU": count - dedicated, "PCPU": dedicated + (emulator == "isolate")}
    amounts.update({**_without_zeros(cpus), **others})
    if threads in _THREADS:
        traits[_THREADS[threads]].setdefault("", []).append("HW_CPU_HYPERTHREADING")


def _masked(mask: str, count: int) -> set[int]:
    """The CPUs of *mask*, among numbers from 0 to *count* - 1: `0-2,^1`; with exclusions only, all others."""
    included: set[int] = set()
    excluded: set[int] = set()
    for part in mask.split(","):
        match = re.fullmatch(r"\s*(\^)?(\d{1,4})(?:-(\d{1,4}))?\s*", part, re.ASCII)
        if match is None:
            raise _Untranslatable(f"a mask of CPUs is of the form 0-2,^1, not {mask!r}")
        (excluded if match[1] else included).update(range(int(match[2]), int(match[3] or match[2]) + 1))
    return (included or set(range(count))) & set(range(count)) - excluded


def _translate_devices(specs: dict[str, str], amounts: dict[str, int], traits: dict[str, dict[str, list[str]]]) -> None:
    """Take the extra specs of memory and firmware from *specs*, and request what nova requests for them."""
    required = traits["required"].setdefault("", [])
    for label in filter(None, specs.pop("hw:pmem", "").split(",")):
        namespace = f"CUSTOM_PMEM_NAMESPACE_{re.sub('[^A-Z0-9]', '_', label.strip().upper())}"
        amounts[namespace] = amounts.get(namespace, 0) + 1
    if specs.pop("hw:mem_encryption", "").lower() in _TRUE:
        amounts["MEM_ENCRYPTION_CONTEXT"] = 1
    if version := specs.pop("hw:tpm_version", ""):
        required.append(f"COMPUTE_SECURITY_TPM_{re.sub('[^0-9]', '_', version)}")
    if specs.pop("os:secure_boot", "") == "required":
        required.append("COMPUTE_SECURITY_UEFI_SECURE_BOOT")
    if not required:
        del traits["required"][""]


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
