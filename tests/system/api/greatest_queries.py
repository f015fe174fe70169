"""Queries as long as they may be: each parameter of each route, filled or repeated up to the bound.

Routes and parameters are those of the application's own schemas, so a new parameter comes in by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from stead.api.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST = 64_000
"""Bytes: the default of `[stead] max_query_length`."""

MOST_GROUPS = 3000
"""The default of `[stead] max_request_groups`."""

CANDIDATES = "resources=VCPU:1"
"""What a query for candidates needs beside its long parameter."""


def _uuid(number: int) -> str:
    return str(uuid5(NAMESPACE_URL, str(number)))


MEMBERS: dict[str, Callable[[int], str]] = {
    "resources": lambda number: f"CUSTOM_LONG_{number % 50}:{number + 1}" if number else "VCPU:1",
    "required": lambda number: "HW_CPU_X86_AVX2" if number % 2 else "!HW_CPU_X86_SHA",
    "root_required": lambda number: "HW_CPU_X86_AVX2" if number % 2 else "!HW_CPU_X86_SHA",
    "member_of": _uuid,
    "root_member_of": _uuid,
    "in_tree": _uuid,
    "in_subtree": _uuid,
    "same_subtree": lambda number: f"_{number}",
    "isolate": lambda number: f"_{number}",
    "can_split": lambda number: f"CUSTOM_LONG_{number}",
    "order_by": lambda number: f"CUSTOM_LONG_{number}:asc",
    "name": lambda number: f"CUSTOM_LONG_{number}",
    "uuid": _uuid,
    "provider": _uuid,
    "marker": _uuid,
    "limit": lambda number: str(number + 1),
    "group_policy": lambda number: ("none", "isolate")[number % 2],
    "associated": lambda number: ("true", "false")[number % 2],
    "project_id": lambda number: f"project-{number}",
    "user_id": lambda number: f"user-{number}",
    "consumer_type": lambda number: f"TYPE_{number}",
    "since": _uuid,
    "timeout": lambda number: "0",
    "fields": lambda number: ("name", "inventories", "usages")[number % 3],
    "depth": str,
    "headroom": lambda number: ("true", "false")[number % 2],
    "make_room_for": str,
    "same_traits": lambda number: ("true", "false")[number % 2],
    "same_aggregates": lambda number: ("true", "false")[number % 2],
    "flavor": lambda number: f"flavor-{number}",
    "mix": lambda number: f"flavor-{number}:{number % 3 + 1}",
    "improve": lambda _number: "mix",
    "moves": lambda number: str(number + 1),
    "expires_before": lambda number: f"2030-01-01T00:00:00.{number:06}Z",
    "totals": lambda number: ("true", "false")[number % 2],
    "columns": lambda number: ("true", "false")[number % 2],
    "merged": lambda number: ("true", "false")[number % 2],
}
"""Values of each parameter, as many as one wants."""

WITH_SUFFIXES = ("resources", "required", "member_of", "in_tree", "in_subtree")


@dataclass(frozen=True)
class Query:
    """A query of about the greatest length, and what it is long by."""

    path: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}, {self.what}"


def parameters(path: str) -> list[str]:
    """All parameters of GET *path*."""
    schema = OPERATIONS["GET", path].query
    assert schema is not None
    names = list(schema["properties"])
    if schema.get("patternProperties"):
        assert len(schema["patternProperties"]) == len(WITH_SUFFIXES)
        names += WITH_SUFFIXES
    return names


def paths() -> list[str]:
    """Of the routes that have parameters."""
    return [path for (method, path), operation in OPERATIONS.items() if operation.query and method == "GET"]


def filled(separator: str, values: Iterator[str], room: int, most: int = 100_000) -> str:
    """As many of *values* as there is *room* for."""
    parts, used = [], 0
    for number, value in enumerate(values):
        used += len(value) + len(separator)
        if used > room or number >= most:
            break
        parts.append(value)
    return separator.join(parts)


def queries(path: str) -> Iterator[Query]:
    """The greatest ones of GET *path*."""
    base = f"{CANDIDATES}&" if path.startswith(("/allocation_candidates", "/headroom", "/advice")) else ""
    base += "make_room_for=1&" if path == "/advice" else ""
    room = LONGEST - len(base) - 100
    for name in parameters(path):
        member = MEMBERS[name]
        key = "" if base and name == "resources" else base
        yield Query(path, f"{name}, one long value", f"{key}{name}={'a' * (room - len(name))}")
        yield Query(path, f"{name}, many values", f"{key}{name}={filled(',', map(member, count()), room)}")
        yield Query(path, f"{name} in:", f"{key}{name}=in:{filled(',', map(member, count()), room)}")
        yield Query(path, f"{name}, the same value", key + filled("&", (f"{name}={member(1)}" for _ in count()), room))
        yield Query(path, f"{name}, repeated", key + filled("&", (f"{name}={member(n)}" for n in count()), room))
        if base and name in WITH_SUFFIXES:
            yield Query(path, f"{name}, many suffixes", base + _groups(name, room))
        if path == "/provider_trees" and name == "name":
            yield Query(path, "name of stars", f"name={'*' * (room - 5)}")
            yield Query(path, "name of stars and letters", f"name={'*a' * (room // 2 - 5)}*")
        if name in ("same_subtree", "isolate"):
            yield Query(path, f"{name} of all groups", base + _related(name, room))
    if base:
        yield Query(path, "many groups that isolate", f"{base}group_policy=isolate&{_groups('resources', room - 30)}")
    text = filled("&", (f"nothing{number}=1" for number in count()), room)
    yield Query(path, "unknown parameters", base + text)


def _groups(name: str, room: int) -> str:
    """Many groups, each with a value of *name* beside its resources."""
    group = (
        f"resources_{n}=VCPU:1" if name == "resources" else f"resources_{n}=VCPU:1&{name}_{n}={MEMBERS[name](n)}"
        for n in count()
    )
    return filled("&", group, room, MOST_GROUPS - 1)


def _related(name: str, room: int) -> str:
    """Many groups, and *name* with the suffixes of all of them."""
    groups = _groups("resources", room * 3 // 4)
    suffixes = ",".join(f"_{number}" for number in range(groups.count("&") + 1))
    return f"group_policy=none&{groups}&{name}={suffixes}"[: room + 100]
