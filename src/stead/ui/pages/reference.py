"""``/docs`` and ``/openapi.json``: the reference of the API, without a token and without a script."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from stead.api.app import documented_routes
from stead.api.openapi import document
from stead.ui.rendering import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stead.api.request import Request, Response
    from stead.ui.rendering import Rendering


class _ByRoot:
    """The bytes of a page that differs by the path of the service alone. Clients need no token to ask for it again."""

    def __init__(self) -> None:
        self._last: tuple[str, bytes] | None = None  # of one path only: clients behind a proxy might invent paths

    def of(self, root: str, make: Callable[[], bytes]) -> bytes:
        """The bytes for the path *root*; *make* makes them unless it was the last path too."""
        last = self._last
        if last is None or last[0] != root:
            last = self._last = root, make()
        return last[1]


class PublicDocument:
    """`/openapi.json` for clients without a token."""

    def __init__(self) -> None:
        self._bytes = _ByRoot()

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the OpenAPI document."""
        root = req.root_path
        resp.data = self._bytes.of(root, lambda: orjson.dumps({**self._document, "servers": [{"url": root or "/"}]}))
        resp.content_type = "application/json"

    @cached_property
    def _document(self) -> dict[str, Any]:
        return document(documented_routes())


class Reference:
    """`/docs`: the same for people."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering
        self._page = _ByRoot()

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the reference."""

        def page() -> bytes:
            return self._rendering.text(req, "reference", sections=self._sections, info=self._document["info"]).encode()

        resp.data = self._page.of(req.root_path, page)
        describe(resp)

    @cached_property
    def _document(self) -> dict[str, Any]:
        return document(documented_routes())

    @cached_property
    def _sections(self) -> Sequence[Section]:
        return sections(self._document)


# The OpenAPI document as sections of a page.


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


# ``/ui/style``: the tokens and components of the stylesheet, for developers.


COLOURS = (
    "free",
    "used",
    "full",
    "reserved",
    "disabled",
    "warning",
    "overdue",
    "good",
    "accent",
    "ink",
    "quiet",
    "line",
)
"""Tokens with a meaning."""

SIZES = ("figure", "title", "large", "text", "small", "tiny")
SPACES = ("s1", "s2", "s3", "s4", "s6", "s8")


class Style:
    """The page."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering

    def on_get(self, req: Request, resp: Response) -> None:
        """Show each token and each component once."""
        self._rendering.show(req, resp, "style", colours=COLOURS, sizes=SIZES, spaces=SPACES)
