"""The OpenAPI document of the newest microversion, generated from the service's own data.

Routes and checks are read from the gates, bodies and queries from the schemas that validate requests, and statuses,
codes and messages of errors from the table of answers.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from stead.api.answers import TITLES_AND_SENTENCES, problem_of, rows_of
from stead.api.operations import ERRORS, EXAMPLES, OPERATIONS, PATH_PARAMETERS, SCHEMAS, STRANGER
from stead.api.query.candidates import GROUP_KEYS
from stead.api.request import UNDEFINED, Allowed, JsonAnswer, JsonBody, Router, Since, gates_of, stead_since
from stead.api.versions import NEWEST, V, name_of
from stead.domain.errors import Forbidden, SteadError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.api.bodies import Schema
    from stead.api.operations import Operation
    from stead.api.request import Gate

Json = dict[str, Any]

JSON = "application/json"
DESCRIPTION = (
    "The OpenStack Placement API of Stead, at its newest microversion. docs/api.md and docs/stead-api.md describe "
    "older microversions, the order of checks, and the parameters of allocation candidates."
)
GROUPS = (
    "Request groups: a parameter name, directly followed by the group's suffix. "
    + ", ".join(f"`{word}` since {name_of(since)}" for word, since in GROUP_KEYS.items())
    + f"; numbers as suffixes since {V.GROUPS}, others since {V.STRING_SUFFIXES}. "
    + "`required` and `member_of` may be repeated."
)
HEADERS: Json = {
    "OpenStack-API-Version": {"description": "The microversion of the response.", "schema": {"type": "string"}},
    "X-OpenStack-Request-Id": {"description": "Id of the request in the log.", "schema": {"type": "string"}},
    "ETag": {"description": "Identifies this state of the response.", "schema": {"type": "string"}},
    "Location": {"description": "Absolute URL of the created object.", "schema": {"type": "string"}},
}
ASKED_VERSION: Json = {
    "name": "OpenStack-API-Version",
    "in": "header",
    "description": "The requested microversion; default 1.0.",
    "schema": {"type": "string", "default": "placement 1.0", "examples": [f"placement {NEWEST}"]},
}
IF_NONE_MATCH: Json = {
    "name": "If-None-Match",
    "in": "header",
    "description": "ETags of earlier responses, or `*`. While one of them is current, the response is 304.",
    "schema": {"type": "string"},
}
_TAGS = {
    "/": "root",
    "/openapi.json": "openapi",
    "/allocation_candidates/explain": "explanations",
    "/provider_trees/{uuid}": "provider_states",
    "/whatif": "what_if",
}
"""The tags of paths that are not tagged by their last literal segment. Generated clients name classes after tags."""

UNAVAILABLE = Unavailable("the database does not answer")


def document(routes: Mapping[str, object]) -> Json:
    """The document of all *routes*, by their paths."""
    router = Router()
    for path, resource in routes.items():
        router.add_route(path, resource)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stead",
            "version": str(NEWEST),
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"token": []}],
        "paths": {path: _path(path, resource, router.routes[path]) for path, resource in routes.items()},
        "components": {
            "schemas": {name: _named(schema, inside=name) for name, schema in SCHEMAS.items()},
            "headers": HEADERS,
            "parameters": {"version": ASKED_VERSION, "if_none_match": IF_NONE_MATCH},
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
        },
    }


def _path(path: str, resource: object, handlers: Mapping[str, object]) -> Json:
    names = [segment[1:-1] for segment in path.split("/") if segment.startswith("{")]
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": PATH_PARAMETERS.get(path) or PATH_PARAMETERS[name],
            "example": EXAMPLES[name],
        }
        for name in names
    ]
    literal = [segment for segment in path.split("/") if not segment.startswith("{")]
    tag = _TAGS.get(path, literal[-1])
    described = {method.lower(): _operation(method, path, handler) for method, handler in sorted(handlers.items())}
    own = stead_since(resource)
    if own is not None:
        for operation in described.values():
            operation["x-since"] = name_of(own)
    return {
        "description": _prose(resource),
        "parameters": [{"$ref": "#/components/parameters/version"}, *parameters],
        **{method: {"tags": [tag], **operation} for method, operation in described.items()},
    }


def _operation(method: str, path: str, handler: object) -> Json:
    operation = OPERATIONS[method, path]
    gates = gates_of(handler)
    words = [word.strip("{}").replace(".", "_") for word in path.split("/") if word]
    described: Json = {
        "operationId": "_".join([method.lower(), *words]),
        "summary": _prose(handler).removesuffix("."),
        "x-since": next((str(gate.first) for gate in gates if isinstance(gate, Since)), str(V.INITIAL)),
    }
    for gate in gates:
        if isinstance(gate, Allowed):
            described["x-policy-rule"] = gate.rule
    if path == "/":
        described["security"] = []
    parameters = [] if operation.query is None else _query(operation)
    if 304 in operation.answers:
        parameters.append({"$ref": "#/components/parameters/if_none_match"})
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": {JSON: {"schema": _named(operation.body)}}}
    described["responses"] = _successes(operation) | _refusals(operation, handler, gates, open_to_all=path == "/")
    return described


def _query(operation: Operation) -> list[Json]:
    schema = operation.query or {}
    required = schema.get("required", [])
    parameters: list[Json] = []
    for name, value in schema.get("properties", {}).items():
        parameter: Json = {"name": name, "in": "query", "required": name in required, "schema": value}
        if name in operation.since:
            parameter["description"] = f"Since {operation.since[name]}."
        if name in operation.repeated:
            parameter |= {"schema": {"type": "array", "items": value}, "style": "form", "explode": True}
        parameters.append(parameter)
    if "patternProperties" in schema:
        groups = {"type": "object", "patternProperties": schema["patternProperties"], "additionalProperties": False}
        parameters.append(
            {"name": "groups", "in": "query", "description": GROUPS, "schema": groups, "style": "form", "explode": True}
        )
    return parameters


def _successes(operation: Operation) -> Json:
    headers = ["OpenStack-API-Version", "X-OpenStack-Request-Id", *(["Location"] if operation.located else [])]
    if 304 in operation.answers:
        headers.append("ETag")
    told = {name: {"$ref": f"#/components/headers/{name}"} for name in headers}
    responses: Json = {}
    for status, schema in operation.answers.items():
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "headers": told}
        if schema is not None:
            responses[str(status)]["content"] = {JSON: {"schema": _named(schema)}}
    return responses


def _refusals(operation: Operation, handler: object, gates: tuple[Gate, ...], *, open_to_all: bool) -> Json:
    """The errors by status; the description of each lists its codes and messages."""
    told: dict[int, list[str]] = {400: [], 406: []}
    if not open_to_all:
        told[401] = []
    for gate in gates:
        if isinstance(gate, Allowed):
            _tell(told, handler, Forbidden(gate.rule))
            _tell(told, handler, UNAVAILABLE)
        elif isinstance(gate, JsonBody):
            told[415] = [f"`{UNDEFINED}`: The media type text/plain is not supported, use {JSON}"]
        elif isinstance(gate, JsonAnswer):
            told[406] = [f"`{UNDEFINED}`: Only {JSON} is provided"]
    if operation.body is not None:
        told[400] += [f"`{UNDEFINED}`: Malformed JSON: …", f"`{UNDEFINED}`: JSON does not validate: …"]
    for error in operation.errors:
        _tell(told, handler, error)
    told[400] += [
        "without code: Invalid microversion: invalid version string: …",
        f"`{UNDEFINED}`: content-type header required when content-length > 0",
    ]
    told[406].append("without code: Invalid microversion: Unacceptable version header: …")
    return {str(status): _refusal(status, lines) for status, lines in sorted(told.items())}


def _tell(told: dict[int, list[str]], handler: object, error: SteadError) -> None:
    problem = problem_of(error, rows_of(handler), EXAMPLES)
    told.setdefault(problem.status, []).append(f"`{problem.code}`: {problem.message}")


def _refusal(status: int, lines: list[str]) -> Json:
    if status == 401:
        return {"description": "Unauthorized", "content": {JSON: {"schema": _named(STRANGER)}}}
    title = TITLES_AND_SENTENCES[status][0]
    described = "\n".join([title, *(["", *(f"* {line}" for line in lines)] if lines else [])])
    return {"description": described, "content": {JSON: {"schema": _named(ERRORS)}}}


def _named(schema: Schema, *, inside: str | None = None) -> Any:
    """*schema* with each schema that has a name replaced by a reference; *inside* is the name of *schema* itself."""
    for name, named_schema in SCHEMAS.items():
        if schema == named_schema and name != inside:
            return {"$ref": f"#/components/schemas/{name}"}
    return {key: _named_in(value) for key, value in schema.items()}


def _named_in(value: Any) -> Any:
    if isinstance(value, dict):
        return _named(value)
    return [_named_in(item) for item in value] if isinstance(value, list) else value


def _prose(documented: object) -> str:
    return " ".join((documented.__doc__ or "").split("\n\n", 1)[0].split()).replace("``", "`")
