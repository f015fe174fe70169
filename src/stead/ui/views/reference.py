"""The OpenAPI document as sections of a page."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_METHODS = ("get", "post", "put", "patch", "delete")


class Parameter(NamedTuple):
    """A parameter of an operation; ``place`` is path, query or header."""

    name: str
    place: str
    required: bool
    description: str


class Operation(NamedTuple):
    """An operation, with its fields of the body and its responses by status."""

    method: str
    path: str
    anchor: str
    summary: str
    description: str
    since: str
    rule: str
    parameters: Sequence[Parameter]
    fields: Sequence[str]
    responses: Sequence[tuple[str, str]]


class Section(NamedTuple):
    """The operations of one noun."""

    name: str
    operations: Sequence[Operation]


def sections(document: Mapping[str, Any]) -> list[Section]:
    """All operations of an OpenAPI document, by tag, in the document's order."""
    by_tag: dict[str, list[Operation]] = defaultdict(list)
    for path, entry in document["paths"].items():
        for method in _METHODS:
            if method in entry:
                by_tag[entry[method].get("tags", ["other"])[0]].append(_operation(document, path, entry, method))
    return [Section(tag.replace("_", " "), operations) for tag, operations in by_tag.items()]


def _operation(document: Mapping[str, Any], path: str, entry: Mapping[str, Any], method: str) -> Operation:
    described = entry[method]
    given = [*entry.get("parameters", []), *described.get("parameters", [])]
    return Operation(
        method.upper(),
        path,
        described["operationId"],
        described.get("summary", ""),
        described.get("description", entry.get("description", "")),
        str(described.get("x-since", "")),
        described.get("x-policy-rule", ""),
        [_parameter(_resolved(document, parameter)) for parameter in given],
        _fields(document, described.get("requestBody")),
        [(status, _resolved(document, each).get("description", "")) for status, each in described["responses"].items()],
    )


def _parameter(described: Mapping[str, Any]) -> Parameter:
    return Parameter(
        described["name"], described["in"], bool(described.get("required")), described.get("description", "")
    )


def _fields(document: Mapping[str, Any], body: Mapping[str, Any] | None) -> list[str]:
    """The names of the fields of a JSON body; an asterisk marks the required ones."""
    if body is None:
        return []
    contents: list[Mapping[str, Any]] = list(body.get("content", {}).values())
    schema = _resolved(document, contents[0]["schema"]) if contents else {}
    required = set(schema.get("required", ()))
    return [f"{name}*" if name in required else name for name in schema.get("properties", {})]


def _resolved(document: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    """*value*, or what it refers to within the document."""
    while "$ref" in value:
        node: Any = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            node = node[part]
        value = node
    return value
