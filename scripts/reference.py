"""The reference of the API for people: the OpenAPI document as a page, operation by operation."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

METHODS = ("get", "post", "put", "delete")
INDENT = "  "

START = """\
# API operations

This page is for authors of clients. It lists every operation at the newest microversion, generated from
[openapi.json](openapi.json). [Placement API](api.md) and [Stead's own API](stead-api.md) explain the fields, the order
of checks, and older microversions.

In the shapes of bodies, `?` after a name means that the field is optional, and `<…>` stands for names of that form.

Every error is `{"errors": [{"status", "title", "detail", "request_id", "code"}]}`, except 401, which precedes the
service: `{"message", "code", "title"}`. Every operation except `GET /` may also return 401 (no valid token), 403
(rejected by the policy rule) and 406 (unsupported microversion). It returns 503 if the database does not answer.
"""

EVERYWHERE = {"401", "403", "406", "503"}
"""Statuses that the page's start has said all about."""


def page(document: dict[str, Any]) -> str:
    """The whole page, in Markdown."""
    schemas = document["components"]["schemas"]
    rows = [
        (operation["tags"][0], path, method, operation, item)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]
    return START + "".join(
        f"\n## {tag}\n" + "".join(_operation(*row, schemas) for _, *row in some)
        for tag, some in groupby(rows, key=lambda row: row[0])
    )


def _operation(path: str, method: str, operation: dict[str, Any], item: dict[str, Any], schemas: dict[str, Any]) -> str:
    rule = operation.get("x-policy-rule")
    about = [f"since {operation.get('x-since', '1.0')}"] + ([f"policy rule `{rule}`"] if rule else [])
    text = f"\n### {method.upper()} `{path}`\n\n{operation['summary']} ({', '.join(about)})\n"
    text += _parameters([*item.get("parameters", ()), *operation.get("parameters", ())])
    body = operation.get("requestBody")
    if body:
        text += f"\nBody:\n\n{_shape(_json(body), schemas)}"
    for status, response in operation["responses"].items():
        if status < "300":
            text += f"\n**{status}** {response['description']}"
            text += f":\n\n{_shape(_json(response), schemas)}" if "content" in response else ", without a body.\n"
    return text + _errors(operation["responses"])


def _json(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(iter(content["content"].values()))["schema"]
    return found


def _parameters(parameters: list[dict[str, Any]]) -> str:
    rows = "".join(
        f"| `{one['name']}` | {one['in']} | {_cell(_words(one['schema']))} | {_cell(one.get('description', ''))} |\n"
        for one in parameters
        if "name" in one
    )
    return rows and f"\n| parameter | in | form | |\n|---|---|---|---|\n{rows}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _errors(responses: dict[str, dict[str, Any]]) -> str:
    rows = [
        f"| {status} | {_cell(reason)} |\n"
        for status, response in responses.items()
        if status >= "400" and status not in EVERYWHERE
        for reason in _reasons(response["description"])
    ]
    return f"\n| refused with | because |\n|---|---|\n{''.join(rows)}" if rows else ""


def _reasons(description: str) -> list[str]:
    """Which codes and words a status comes with; the status's own name where nothing more is said."""
    name, _, reasons = description.partition("\n\n")
    return [line.removeprefix("* ") for line in reasons.splitlines()] or [name]


def _shape(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    lines = "\n".join(_lines(schema, schemas))
    return f"```text\n{lines}\n```\n"


def _lines(schema: dict[str, Any], schemas: dict[str, Any], seen: tuple[str, ...] = ()) -> Iterator[str]:
    """*schema* as it would stand in a body, with words for values."""
    name = schema.get("$ref", "").rpartition("/")[2]
    if name in seen:
        yield name
        return
    if name:
        schema, seen = schemas[name], (*seen, name)
    fields = _fields(schema)
    if fields:
        yield "{"
        for field, value in fields:
            first, *rest = _lines(value, schemas, seen)
            yield f"{INDENT}{field}: {first}"
            yield from (f"{INDENT}{line}" for line in rest)
        yield "}"
    elif schema.get("items"):
        first, *rest = _lines(schema["items"], schemas, seen)
        yield f"[{first}"
        yield from rest
        yield "…]"
    elif alternatives := schema.get("oneOf") or schema.get("anyOf"):
        for number, one in enumerate(alternatives):
            first, *rest = _lines(one, schemas, seen)
            yield f"or {first}" if number else first
            yield from rest
    else:
        yield _words(schema)


def _fields(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    required = schema.get("required", ())
    named = [(name if name in required else f"{name}?", value) for name, value in schema.get("properties", {}).items()]
    patterned = [(f"<{form}>", value) for form, value in schema.get("patternProperties", {}).items()]
    others = schema.get("additionalProperties")
    return [*named, *patterned, *([("<any>", others)] if isinstance(others, dict) else [])]


def _words(schema: dict[str, Any]) -> str:
    """One value: its type, and what it is limited to."""
    if "enum" in schema:
        return " or ".join(f"`{value}`" if isinstance(value, str) else str(value) for value in schema["enum"])
    if schema.get("items"):
        return f"{_words(schema['items'])}, may be repeated"
    kind = schema.get("type", "anything")
    words = " or ".join(kind) if isinstance(kind, list) else str(kind)
    words += f" ({schema['format']})" if "format" in schema else ""
    words += f" of the form `{schema['pattern']}`" if "pattern" in schema else ""
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        words += f" from {least} to {most}"
    elif least is not None:
        words += f" from {least}"
    elif most is not None:
        words += f" to {most}"
    return words
