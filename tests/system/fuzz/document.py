"""Requests that schemathesis makes of the OpenAPI document, and answers held against what the document promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.system.api.client import NEWEST
from tests.system.fuzz.words import CLASSES, CONSUMERS, PROVIDERS, TRAITS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from wsgiref.types import WSGIApplication

    from schemathesis import APIOperation, Case

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
HEADERS = {"X-Auth-Token": "admin", "X-Roles": "admin,service", "Accept": "application/json"}
KNOWN = {
    "uuid": PROVIDERS[:8],
    "consumer_uuid": CONSUMERS,
    "resource_class": CLASSES,
    "name": [*TRAITS, *CLASSES],
}
"""What schemathesis would not guess, by the name of the path's parameter."""

QUERIES = [
    {"resources": "VCPU:1"},
    {"resources": "VCPU:1,MEMORY_MB:2", "limit": "3"},
    {"resources_A": "VCPU:1", "resources_B": "DISK_GB:1", "group_policy": "none", "same_subtree": "_A,_B"},
]
"""Queries of candidates that make sense, which chance alone finds none of."""


def operations(document: dict[str, Any], application: WSGIApplication) -> Iterator[APIOperation[Any, Any, Any, Any]]:
    """Every operation of the document, to be asked of the application.

    The document is that of the newest microversion, which is always asked for, and by somebody who may do everything.
    """
    paths = {
        path: {key: value for key, value in item.items() if key != "parameters"}
        | {"parameters": [parameter for parameter in item["parameters"] if "$ref" not in parameter]}
        for path, item in document["paths"].items()
    }
    schema = schemathesis.openapi.from_dict({**document, "paths": paths, "security": []})
    schema.app = application
    for result in schema.get_all_operations():
        yield result.ok()


def probe(operation: APIOperation[Any, Any, Any, Any], examples: int, statuses: Counter[int], *, seed: int = 0) -> None:
    """Send requests that fit the description of *operation*, and as many that do not; the same ones for the same seed.

    Raises:
        BaseExceptionGroup: an answer is none that the document promises.
    """
    # A path's parameter is any text, so none of them is wrong.
    may_be_wrong = operation.query or operation.body
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE) if may_be_wrong else (GenerationMode.POSITIVE,):

        @seeded(seed)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), names=st.data())
        def ask(case: Case, names: st.DataObject) -> None:
            for parameter, known in KNOWN.items():
                if parameter in case.path_parameters and names.draw(st.integers(0, 3)):
                    case.path_parameters[parameter] = names.draw(st.sampled_from(known))
            if operation.path == "/allocation_candidates" and names.draw(st.booleans()):
                case.query = dict(names.draw(st.sampled_from(QUERIES)))
            version = f"placement {NEWEST}, stead 1.2"  # what the document is of
            response = case.call(headers={**HEADERS, "OpenStack-API-Version": version})
            statuses[response.status_code] += 1
            case.validate_response(response, checks=CHECKS)

        ask()
