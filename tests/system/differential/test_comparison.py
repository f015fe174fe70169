"""The comparison sees what a client can tell, and nothing else."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.system.api.client import Answer, Door, Headers, Reply
from tests.system.differential import known
from tests.system.differential.asking import Generation, Request
from tests.system.differential.comparison import compare
from tests.system.differential.machine import Difference
from tests.system.differential.pair import Pair, stead
from tests.system.differential.runs import Tally, run
from tests.system.differential.wordings import wording_of

LIST = Request("GET", "/resource_providers")
NOON, SOON, LATER = (f"Sat, 21 Nov 2026 12:{minute} GMT" for minute in ("00:00", "00:03", "01:00"))
JSON = [("content-type", "application/json"), ("vary", "openstack-api-version")]


def answer(body: Any, status: int = 200, headers: Headers = JSON) -> Answer:
    return Answer(status, headers, json.dumps(body).encode())


def refusal(detail: str, code: str = "placement.undefined_code", status: int = 409) -> Answer:
    error = {"status": status, "title": "Conflict", "detail": detail, "code": code, "request_id": "req-1"}
    return answer({"errors": [error]}, status)


def page(sentence: str, message: str) -> Answer:
    head = "<html>\n <head>\n  <title>406 N</title>\n </head>\n <body>\n  <h1>406 N</h1>\n"
    body = f"{head}  {sentence}<br /><br />\n{message}\n </body>\n</html>"
    return Answer(406, [("content-type", "text/html")], body.encode())


def text(sentence: str, message: str) -> Answer:
    return Answer(406, [("content-type", "text/plain")], f"406 N\n\n{sentence}\n\n {message}".encode())


@pytest.mark.parametrize(
    ("one", "other", "facets"),
    [
        (answer({"traits": ["A", "B"]}), answer({"traits": ["B", "A"]}), set()),
        (answer({"traits": ["A", "B"]}), answer({"traits": ["A", "A", "B"]}), {"body"}),
        (answer({"a": 1, "b": 2}), answer({"b": 2, "a": 1}), set()),
        (answer({"generation": 1}), answer({"generation": 2}), {"body"}),
        (answer({"allocation_ratio": 1}), answer({"allocation_ratio": 1.0}), {"body"}),
        (answer({"links": [1, 2]}), answer({"links": [2, 1]}), {"body"}),
        (answer({}), answer({}, 201), {"status"}),
        (answer({}), answer({}, headers=[*JSON, ("last-modified", NOON)]), {"last-modified"}),
        (
            answer({}, headers=[*JSON, ("last-modified", NOON)]),
            answer({}, headers=[*JSON, ("last-modified", SOON)]),
            set(),
        ),
        (
            answer({}, headers=[*JSON, ("last-modified", NOON)]),
            answer({}, headers=[*JSON, ("last-modified", LATER)]),
            {"last-modified"},
        ),
        (answer({}), answer({}, headers=[*JSON, ("x-of-a-proxy", "1")]), set()),
        (refusal("prose"), refusal("prose"), set()),
        (refusal("prose"), refusal("other prose"), {"detail"}),
        (refusal("one line"), refusal("one   line "), set()),
        (refusal("A sentence.\n\n the message  "), refusal("A sentence.  \n\n the message"), set()),
        (refusal("A sentence.\n\n the message"), refusal("A sentence. the message"), {"detail"}),
        (page("A sentence.", "it&#x27;s"), page("A\nsentence.", "it's"), set()),
        (page("A sentence.", "one"), page("A sentence.", "another"), {"detail"}),
        (text("A sentence.", "one"), text("A sentence. ", "one  "), set()),
        (text("A sentence.", "one"), text("A sentence.", "another"), {"detail"}),
        (refusal("prose"), refusal("prose", code="placement.concurrent_update"), {"code"}),
        (refusal("Resource provider has allocations."), refusal("Unable to allocate inventory"), {"detail"}),
        (refusal("expected 3 but got 1"), refusal("consumer generation conflict - expected 3 but got 1"), {"detail"}),
        (
            refusal("consumer generation conflict - expected 3 but got 1"),
            refusal("consumer generation conflict - expected 3 but got 2"),
            {"detail"},
        ),
        (refusal("Inventory for 'A, B' on resource provider 'u' invalid."),
         refusal("Inventory for 'B, A' on resource provider 'u' invalid."), {"detail"}),
        (refusal("Inventory for 'A, B' on resource provider 'u' in use."),
         refusal("Inventory for 'B, A' on resource provider 'u' in use."), {"detail"}),
    ],
)  # fmt: skip
def test_it_tells_what_a_client_can_tell(one: Answer, other: Answer, facets: set[str]) -> None:
    assert compare(LIST, one, other).facets == facets


@pytest.mark.parametrize(
    ("ours", "theirs", "wording"),
    [
        ("S.\n\nNo such path: /x", "S.\n\n", "No such path"),
        ("S.\n\nNo such path: /x", "T.\n\n", None),
        ("S.\n\nMalformed JSON: x", "S.\n\nMalformed JSON: y", "Words of the parser"),
        ("S.\n\nMalformed JSON: x", "S.\n\nJSON does not validate: y", None),
        (
            "S.\n\nJ: 1 is odd Failed validating 'type' in schema['a']: {'b': 1} On instance['a']: {'x': 1}",
            "S.\n\nJ: 1 is odd Failed validating 'type' in schema['a']: {'c': 2} On instance['a']: {'x': 1}",
            "The schema",
        ),
        (
            "S.\n\nJ: 1 is odd Failed validating 'type' in schema['a']: {'b': 1} On instance['a']: {'x': 1}",
            "S.\n\nJ: 1 is odd Failed validating 'type' in schema['b']: {'b': 1} On instance['a']: {'x': 1}",
            None,
        ),
        (
            "S.\n\nJ: 1 is odd Failed validating 'type' in schema['a']: {'b': 1} On instance['a']: {'x': 1}",
            "S.\n\nJ: 1 is odd Failed validating 'type' in schema['a']: {'b': 1} On instance['a']: {'x': 2}",
            None,
        ),
        (
            "S.\n\nInventory for 'A, B' on resource provider 'u' invalid.",
            "S.\n\nInventory for 'B, A' on resource provider 'u' invalid.",
            "In no order",
        ),
        (
            "S.\n\nInventory for 'A, B' on resource provider 'u' invalid.",
            "S.\n\nInventory for 'A, C' on resource provider 'u' invalid.",
            None,
        ),
        ("S.\n\nNo such trait(s): A, B, C.", "S.\n\nNo such trait(s): B.", "One of several unknown traits"),
        ("S.\n\nNo such trait(s): A, B, C.", "S.\n\nNo such trait(s): D.", None),
        ("S.\n\nx: parent is odd", "S.\n\nx: Object action y failed because: parent is odd", None),
        (
            "S.\n\nInventory for 'A, B' on resource provider 'u' in use.",
            "S.\n\nupdate conflict: Inventory for 'A, B' on resource provider 'u' in use.",
            None,
        ),
    ],
)
def test_a_wording_explains_its_own_difference_and_no_other(ours: str, theirs: str, wording: str | None) -> None:
    explained = wording_of("GET /resource_providers", ours, theirs)
    assert (explained and explained.name) == wording


def test_a_request_names_things_as_they_are_called_when_it_is_sent() -> None:
    body = {"<p1>": [Generation("p1", 1), "<c0>"], "new": Generation("c0")}
    asked = Request("PUT", "/allocations/<c0>", query=(("in_tree", "<p1>"),), body=body)
    request = asked.filled({"p1": "P", "c0": "C"}.__getitem__, {"p1": 4, "c0": None}.__getitem__)
    assert request.body == {"P": [5, "C"], "new": None}
    assert request.target == "/allocations/C?in_tree=P"


def test_no_known_difference_excuses_another_one(both: Pair) -> None:
    without_vary = [("content-type", "application/json")]
    only_vary = compare(
        LIST, answer({"errors": [{"detail": ""}]}, 404), answer({"errors": [{"detail": ""}]}, 404, without_vary)
    )
    assert known.names_of(only_vary, both) == ("Vary on errors",)
    on_success = compare(LIST, answer({}), answer({}, headers=without_vary))
    assert known.names_of(on_success, both) == ()
    and_the_code = compare(
        LIST,
        answer({"errors": [{"detail": "", "code": "a"}]}, 404),
        answer({"errors": [{"detail": ""}]}, 404, without_vary),
    )
    assert known.names_of(and_the_code, both) == ()


@pytest.fixture
def both(tmp_path: Path) -> Any:
    """Stead beside another Stead."""
    yield from pair_with(tmp_path, lambda door: door)


def pair_with(directory: Path, change: Any) -> Any:
    (directory / "a").mkdir()
    (directory / "b").mkdir()
    with stead(directory / "a") as one, stead(directory / "b") as other:
        yield Pair(one, change(other))


def test_stead_does_not_differ_from_itself(both: Pair) -> None:
    run(both, 3, Tally())
    assert both.steps > 30


@pytest.mark.parametrize(
    ("route", "pattern", "instead"),
    [
        ("PUT", rb'"resource_provider_generation":\d+', b'"resource_provider_generation":0'),
        ("GET", rb'"capacity":\d+', b'"capacity":7'),
    ],
)
def test_a_service_that_answers_otherwise_is_found(tmp_path: Path, route: str, pattern: bytes, instead: bytes) -> None:
    def changed(door: Door) -> Door:
        def knock(method: str, target: str, headers: Headers, body: bytes | None) -> Reply:
            status, found, content = door(method, target, headers, body)
            return status, found, re.sub(pattern, instead, content) if method == route else content

        return knock

    for pair in pair_with(tmp_path, changed):
        with pytest.raises(Difference):
            run(pair, 40, Tally(), shrink=False)
