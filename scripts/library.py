"""The reference of the library: every public name with its signature and its docstring, as a page."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import stead
from stead import testing

if TYPE_CHECKING:
    from collections.abc import Iterator

START = """\
# Library reference

This page is for developers who write schedulers in Python. It lists every public name of `stead` and `stead.testing`,
generated from the code. [Write a scheduler](library.md) introduces them.

`stead.aio` has the asynchronous twins of `connect`, `open`, `Site` and `Claim`: the same methods with `await`, and
`async for` where a method returns an iterator.
"""

SECTIONS = {
    "Sites": ("connect", "open", "Site", "Claim", "Reply", "uuid_of"),
    "Requests": ("Request", "Group", "Node", "Inventory"),
    "Answers": (
        "Candidates",
        "Candidate",
        "Explanation",
        "Headroom",
        "TreeHeadroom",
        "MixHeadroom",
        "Flavor",
        "FlavorHeadroom",
        "Provider",
        "Disabled",
        "Tree",
        "Applied",
        "Usage",
        "Change",
        "Changes",
        "Place",
    ),
    "Planned changes": (
        "PlannedChange",
        *("Drain", "Disable", "Copy", "SetInventory", "RemoveInventory", "AddTrait", "RemoveTrait", "DeleteAggregate"),
        *("WhatIf", "Move", "Unplaced", "Total", "Advice"),
    ),
    "Errors": (
        *("Error", "InvalidRequest", "CannotOpen", "Refused", "Invalid", "NotAllowed", "NotFound", "Unsupported"),
        *(
            "Conflict",
            "NothingFits",
            "NothingFound",
            "Stale",
            "InUse",
            "ProviderDisabled",
            "CapacityBelowUse",
            "StartOver",
        ),
        *("TooLarge", "Failed", "Unavailable", "Unreachable"),
    ),
}
"""All public names of ``stead``."""

_LISTS = ("Args", "Attributes", "Raises")
_ROLE = re.compile(r":(?:class|func|meth):`~?(?:[a-z_.]*\.)?([^`]+)`")
_MODULE = re.compile(r"\b(?:stead\.[a-z_.]+|pathlib|uuid|collections\.abc|typing)\.(?=[A-Z])")


def page() -> str:
    """The whole page, in Markdown."""
    parts = [START]
    for title, names in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        parts += [_described(name, getattr(stead, name)) for name in names]
    parts.append("\n## stead.testing\n")
    parts += [_described(name, getattr(testing, name)) for name in testing.__all__]
    return "".join(parts)


def _described(name: str, thing: Any) -> str:
    text = f"\n### {name}\n\n{_code(_signature(name, thing))}{_documented(thing)}"
    if inspect.isclass(thing):
        initial = vars(thing).get("__init__")
        if initial is not None and inspect.getdoc(initial) and not issubclass(thing, Exception) and name != "Site":
            text += _documented(initial)
        text += "".join(_member(member, value) for member, value in _members(thing))
    return text


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that the class or a base in the library defines, in the order of the code."""
    if issubclass(thing, Exception):
        return
    seen = set()
    for kind in thing.__mro__:
        if kind.__module__.startswith("stead."):
            for name, value in vars(kind).items():
                if not name.startswith("_") and name not in seen and (callable(value) or isinstance(value, property)):
                    seen.add(name)
                    if inspect.getdoc(value):
                        yield name, value
            for name, value in vars(kind).items():
                if isinstance(value, classmethod) and name == "parse":
                    yield name, value.__func__


def _member(name: str, value: Any) -> str:
    if isinstance(value, property):
        return f"\n**`{name}`**: {_prose(inspect.getdoc(value) or '')}\n"
    return f"\n#### {name}\n\n{_code(_signature(name, value))}{_documented(value)}"


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _signature(name: str, thing: Any) -> str:
    """How it is called; long signatures have one parameter per line."""
    if inspect.isclass(thing) and (issubclass(thing, Exception) or name == "Site"):
        return f"class {name}" + (f"({thing.__base__.__name__})" if issubclass(thing, Exception) else "")
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    text = _MODULE.sub("", f"{name}{signature.replace(parameters=parameters)}".replace("'", ""))
    if len(text) <= 100:
        return text
    inner, _, returned = text.removeprefix(f"{name}(").rpartition(")")
    depth, lines, line = 0, [], ""
    for character in inner:
        depth += (character in "[(") - (character in "])")
        if character == "," and not depth:
            lines.append(f"    {line.strip()},")
            line = ""
        else:
            line += character
    return "\n".join([f"{name}(", *lines, f"    {line.strip()},", f"){returned}"])


def _documented(thing: Any) -> str:
    """The docstring in Markdown: paragraphs, then a list for each section."""
    text = inspect.getdoc(thing) or ""
    blocks = re.split(rf"\n\n(?=(?:{'|'.join(_LISTS)}):\n)", text)
    parts = [_prose(blocks[0])] if not blocks[0].startswith(tuple(f"{each}:" for each in _LISTS)) else []
    for block in blocks[len(parts) :]:
        title, _, rest = block.partition(":\n")
        parts.append(f"{title}:\n\n{_items(rest)}")
    return "\n" + "\n\n".join(parts) + "\n"


def _items(text: str) -> str:
    items: list[str] = []
    for line in inspect.cleandoc(text).splitlines():
        if line.startswith(" ") and items:
            items[-1] += f" {line.strip()}"
        elif line.strip():
            items.append(line.strip())
    pairs = [item.partition(": ") for item in items]
    return "\n".join(f"* {_names(names)}: {_prose(meaning)}" for names, _, meaning in pairs)


def _names(names: str) -> str:
    return ", ".join(f"`{name.strip()}`" for name in names.split(","))


def _prose(text: str) -> str:
    text = _ROLE.sub(r"`\1`", text.replace("``", "`"))
    return re.sub(r"(?<![\w*])\*([a-z_]+)\*(?![\w*])", r"`\1`", text)
