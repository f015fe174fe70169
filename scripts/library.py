"""The reference of the library: every public name with its signature and its docstring, as a page."""

from __future__ import annotations

import inspect
import re
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import stead
from stead import testing

if TYPE_CHECKING:
    from collections.abc import Iterator

START = """\
# Library reference

This page is for developers who write schedulers in Python. It lists every public name of `stead` and `stead.testing`,
generated from the code. [Write a scheduler](library.md) introduces them.

`stead.aio` has the asynchronous twins of `connect`, `open`, `Site`, `Claim` and `Held`: the same methods with
`await`, and `async for` where a method returns an iterator.

A `RequestLike` is a `Request`, a `Group`, amounts by resource class, or the text of a query.
"""

SECTIONS = {
    "Sites": ("connect", "open", "Site", "Claim", "Held", "Reply", "uuid_of", "rack"),
    "Requests": ("Request", "Group", "Node", "Inventory"),
    "Answers": (
        "Candidates",
        "Candidate",
        "Explanation",
        "Headroom",
        "TreeHeadroom",
        "MixHeadroom",
        "Stranded",
        "Flavor",
        "FlavorHeadroom",
        "Mix",
        "MixForm",
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
        *("WhatIf", "Move", "Unplaced", "Total", "Advice", "Improvement"),
    ),
    "Errors": (
        *(
            "Error",
            "InvalidRequest",
            "CannotOpen",
            "SiteClosed",
            "LeaseLost",
            "Refused",
            "Invalid",
            "NotAllowed",
            "NotFound",
            "Unsupported",
        ),
        *(
            "Conflict",
            "NoPlace",
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

_MADE_BY_USERS = {
    *SECTIONS["Requests"],
    *(name for name in SECTIONS["Planned changes"] if issubclass(getattr(stead, name), stead.PlannedChange)),
}
"""Classes that show how they are made. The library makes all others."""

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
        if name in _MADE_BY_USERS and initial is not None and initial.__doc__:
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
        return f"\n**`{name}`**: {_documented(value).strip()}\n"
    return f"\n#### {name}\n\n{_code(_signature(name, value))}{_documented(value)}"


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _signature(name: str, thing: Any) -> str:
    """How it is called; long signatures have one parameter per line."""
    if inspect.isclass(thing) and name not in _MADE_BY_USERS:
        return f"class {name}" + (f"({thing.__base__.__name__})" if issubclass(thing, Exception) else "")
    signature = inspect.signature(thing)
    parameters = list(_parameters(signature))
    returned = signature.return_annotation
    end = ")" if inspect.isclass(thing) or returned is inspect.Signature.empty else f") -> {_annotation(returned)}"
    text = f"{name}({', '.join(parameters)}{end}"
    return text if len(text) <= 100 else "\n".join([f"{name}(", *(f"    {each}," for each in parameters), end])


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """The parameters as Python writes them, without the first one of a method."""
    kind = None
    for each in signature.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if kind is inspect.Parameter.POSITIONAL_ONLY and each.kind is not kind:
            yield "/"
        if each.kind is inspect.Parameter.KEYWORD_ONLY and kind not in (each.kind, inspect.Parameter.VAR_POSITIONAL):
            yield "*"
        kind = each.kind
        stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(kind, "")
        default = "" if each.default is inspect.Parameter.empty else f" = {each.default!r}"
        yield f"{stars}{each.name}: {_annotation(each.annotation)}{default}"


def _annotation(annotation: Any) -> str:
    return _MODULE.sub("", annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


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
    for line in dedent(text).splitlines():
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
