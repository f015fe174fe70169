"""What requests are made of: names that exist or may come to exist, and values that no client means well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid5

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

T = TypeVar("T")

SPACE = UUID("f0f0f0f0-0000-4000-8000-000000000000")
MAX_INT = 2147483647


def _uuids(kind: str, number: int) -> list[str]:
    return [str(uuid5(SPACE, f"{kind}{index}")) for index in range(number)]


PROVIDERS = _uuids("provider", 12)
"""Of these a site has some from the beginning, and others come and go."""

CONSUMERS = _uuids("consumer", 8)
AGGREGATES = _uuids("aggregate", 4)
TRAITS = ["HW_CPU_X86_SHA", "MISC_SHARES_VIA_AGGREGATE", "CUSTOM_FUZZ_A", "CUSTOM_FUZZ_B", "CUSTOM_FUZZ_C"]
CLASSES = ["VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_FUZZ_X", "CUSTOM_FUZZ_Y"]
SUFFIXES = ["1", "2", "3", "_A", "_B", "a", "A", "-", "x" * 64]
OWNERS = ["p", "P", "p ", "pé", "pe", "p\u0301", "ß", "ss", "🖥", "x" * 255]
"""Projects and users; some databases take several of them for one."""

FLAVORS = ["m1", "m1.large", "HW_CPU_X86_SHA"]
TYPES = ["INSTANCE", "MIGRATION", "A" * 255]
NAMES = ["host", "HOST", "host ", "hóst", "ho\u0301st", "🖥", "a'b\"c", "<b>", "x" * 200, "%s{0}", "\u2028", "\x85"]

TEXTS = [
    "", " ", "x", "0", "-1", "\0", "a\0b", "é", "🖥", "\u2028", "\u202e", "\ufeff", "\uffff", "\x7f", "\r\nX-Evil: 1",
    "\n",
    "'", '"', "\\", "';--", "<script>", "%s%n{}{0.__class__}", "../..", "in:", "!", "!in:", ",", ":", "null", "NaN",
    "x" * 256, "x" * 5000, "9" * 400, "9" * 5000, "١", "²", "1_0", "1e3", "urn:uuid:", "{}", "all", "unknown",
    "CUSTOM_", "CUSTOM_\n", "CUSTOM_É", "VCPU\n", "I\u0307", "ı",
]  # fmt: skip

NUMBERS: list[Any] = [
    0, -0.0, -1, 1, 2, 1.0, 1.5, 1e-320, 1e308, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64,
    -(2**31) - 1,
    -(2**63), -(2**63) - 1, 10**30, 10**400, 3.40282e38, 3.5e38, -3.5e38,
]  # fmt: skip

OTHERS: list[Any] = [None, True, False, [], {}, [[]], [None], [{}], {"": None}, {"x": {}}, {"\0": 1}, ["x", "x"]]


def one_in(rng: Random, number: int) -> bool:
    return rng.randrange(number) == 0


def mostly(rng: Random, usual: Sequence[T], odd: Sequence[T], one_of: int = 12) -> T:
    """One of the usual values; one time in *one_of* an odd one."""
    return rng.choice(odd if one_in(rng, one_of) else usual)


def spelled(rng: Random, uuid: str) -> str:
    """The uuid, sometimes as only some readers would know it."""
    if not one_in(rng, 12):
        return uuid
    ways = [
        uuid.upper(),
        uuid.replace("-", ""),
        f"{{{uuid}}}",
        f"urn:uuid:{uuid}",
        f" {uuid}",
        f"{uuid}\n",
        uuid[:-1],
        uuid + "0",
        uuid.replace("0", "O"),
        "-" * 36,
        "a" * 36,
    ]
    return rng.choice(ways)
