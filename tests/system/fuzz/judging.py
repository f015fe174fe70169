"""What holds for every answer, whatever was sent. Source: docs/api.md, "Errors", "Response headers", "Request ids"."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from stead.api.bodies import Validator
from stead.api.operations import ERRORS, OPERATIONS
from tests.system.api.client import NEWEST, REASONS, Answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system.fuzz.requests import Request

SAFE = ("GET", "HEAD", "OPTIONS", "POST /whatif")
CODES = {
    400: {"placement.undefined_code", "placement.resource_provider.not_found", "placement.query.duplicate_key",
          "placement.query.bad_value", "placement.query.missing_value"},
    409: {"placement.undefined_code", "placement.concurrent_update", "placement.inventory.inuse",
    "placement.duplicate_name",
          "placement.resource_provider.inuse", "placement.resource_provider.cannot_delete_parent",
          "stead.nothing_fits", "stead.nothing_found",
          "stead.in_use", "stead.capacity_below_use", "stead.provider_disabled"},
    410: {"stead.start_over"},
}  # fmt: skip
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x20-\x7e\x80-\xff\t]*")
_VERSION = re.compile(r"placement (1\.(?:[0-9]|[12][0-9]|3[0-9]))")


def faults(request: Request, answer: Answer) -> Iterator[str]:
    """What is wrong with *answer*, in words; whether the request changed anything it should not is not seen here."""
    is_full = answer.status == 503 and b"max_watchers" in answer.body  # the site lets nobody wait
    if answer.status not in (200, 201, 204, 401, *REASONS) or (answer.status >= 500 and not is_full):
        yield f"status {answer.status}"
        return
    if request.method in ("GET", "HEAD") and request.target.partition("?")[0] == "/healthcheck":
        yield from _of_health(request, answer)
    else:
        yield from _of_the_api(request, answer)


def _of_health(request: Request, answer: Answer) -> Iterator[str]:
    if (answer.status, answer.body) != (200, b"" if request.method == "HEAD" else b'{"status": "ok"}'):
        yield f"health: {answer.status} {answer.body!r}"


def _of_the_api(request: Request, answer: Answer) -> Iterator[str]:
    yield from _of_headers(request, answer)
    body = answer.body
    if answer.header("content-encoding") == "gzip":
        body = gzip.decompress(body)
    if answer.status == 204 or (answer.status == 201 and not body):
        if body or answer.header("content-type"):
            yield "content in an answer that has none"
        return
    if answer.header("content-type") != "application/json":
        if answer.status < 400 and body:
            yield f"a {answer.status} of type {answer.header('content-type')}"
        body.decode()
        return
    if request.method == "HEAD":
        return
    try:
        value = json.loads(body)
    except ValueError as error:
        yield f"no JSON: {error}"
        return
    if answer.status == 401:
        return
    yield from _of_error(request, answer, value) if answer.status >= 400 else _of_success(request, value)


def _of_headers(request: Request, answer: Answer) -> Iterator[str]:
    for name, value in answer.headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            yield f"header {name!r}: {value[:200]!r}"
    if not re.fullmatch(r"req-[0-9a-f-]{36}", answer.header("x-openstack-request-id") or ""):
        yield "no request id"
    length = answer.header("content-length")
    if length is not None and request.method != "HEAD" and int(length) != len(answer.body):
        yield f"content-length {length}, but {len(answer.body)} bytes"
    asked = _VERSION.fullmatch(request.header("openstack-api-version") or "")
    if asked and not _is_before_versions(answer) and answer.status not in (401, 406) and request.method != "OPTIONS":
        told = answer.header("openstack-api-version")
        if told != asked[0]:
            yield f"asked for {asked[0]}, answered with {told}"


def _of_error(request: Request, answer: Answer, value: Any) -> Iterator[str]:
    fault = _schema_of_errors().best_fault(value)
    if fault is not None or len(value["errors"]) != 1:
        yield f"not the form of errors: {fault}"
        return
    (error,) = value["errors"]
    if (error["status"], error["title"]) != (answer.status, REASONS[answer.status]):
        yield f"status {answer.status} is told as {error['status']} {error['title']}"
    if error["request_id"] != answer.header("x-openstack-request-id"):
        yield "another request id inside"
    if error["detail"].count("\n") != 2 or len(error["detail"].splitlines()) != 3:
        yield "a message of several lines"
    code = error.get("code")
    if code is not None and code not in CODES.get(answer.status, {"placement.undefined_code"}):
        yield f"code {code}"
    asked = _VERSION.fullmatch(request.header("openstack-api-version") or "")
    if (
        asked
        and not _is_before_versions(answer)
        and "max_version" not in error
        and (code is not None) != (int(asked[1].split(".")[1]) >= 23)
    ):
        yield f"code {code} at {asked[1]}"


def _is_before_versions(answer: Answer) -> bool:
    """Whether the request was refused before its version was read."""
    return answer.status == 431 or b"Unknown Host header" in answer.body


def _of_success(request: Request, value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield "no object"
    if request.header("openstack-api-version") != f"placement {NEWEST}":
        return
    template = _template(request.target.partition("?")[0])
    schema = _schema_of(request.method, template) if template else None
    fault = schema.best_fault(value) if schema else None
    if fault is not None:
        yield f"not of the schema that the document promises: {fault}"


@cache
def _schema_of_errors() -> Validator:
    return Validator(ERRORS)


@cache
def _schema_of(method: str, template: str) -> Validator | None:
    operation = OPERATIONS.get((method, template))
    of_success = [schema for schema in operation.answers.values() if schema is not None] if operation else []
    return Validator(of_success[0]) if len(of_success) == 1 and of_success[0] != {"type": "object"} else None


def _template(path: str) -> str | None:
    for _, template in OPERATIONS:
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return template
    return None
