"""Refusing a body costs no more than accepting one, wherever and however it is wrong. Source: "Limits", docs/api.md."""

from __future__ import annotations

import re
import tracemalloc
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.api.bodies import Body, Validator, excerpt, shorten
from stead.api.operations import OPERATIONS
from stead.api.request import SMALL, counts_at_most, longest_body, most_values
from stead.api.versions import Versioned
from stead.domain.limits import RequestLimits
from tests.rooms.api.test_acceptance import RESOURCES, UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = 6_000
"""Members and elements of what is huge: enough that what a refusal costs beside them does not count."""

BESIDE = 500_000
"""Bytes that the hundred faults which are looked at take, whatever the size of the body."""

LONG = "x" * 200

HUGE: dict[str, Any] = {
    "text": 'it\'s "quoted" ' * 100_000,
    "names": {f"{LONG}, {number:06}": 1 for number in range(NAMES)},
    "uuids": {f"{number:08x}-649f-477b-9e5b-f1f75b21c03c": {LONG: number} for number in range(NAMES)},
    "classes": {f"CUSTOM_{LONG.upper()}_{number:06}": {"no": number} for number in range(NAMES)},
    "list": [{"colour": LONG, "number": number} for number in range(NAMES)],
    "depth": [orjson.loads("[" * 200 + "]" * 200) for _ in range(500)],
}
SIZES = {name: len(orjson.dumps(huge)) for name, huge in HUGE.items()}


def body_validators() -> Iterator[tuple[str, Validator]]:
    """The validators of all bodies, each in its newest form."""
    for module in RESOURCES:
        for name, value in vars(module).items():
            if isinstance(value, Versioned):
                *_, (_, body) = value.items()
                if isinstance(body, Body):
                    yield f"{module.__name__.rpartition('.')[2]} {name}", body.validator


VALIDATORS = dict(body_validators())


def good(schema: dict[str, Any]) -> Any:
    """A value of *schema*, with all members that it names."""
    if "anyOf" in schema:
        return good(schema["anyOf"][0])
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][0]
    if kind == "object":
        value = {name: good(part) for name, part in schema.get("properties", {}).items()}
        for pattern, part in schema.get("patternProperties", {}).items():
            value[next(name for name in (UUID, "VCPU") if re.search(pattern, name))] = good(part)
        return value
    if kind == "array":
        return [good(schema["items"])]
    if kind == "string":
        return next(
            text for text in (UUID, "CUSTOM_X", "release", "2030-01-01T00:00:00Z") if Validator(schema).accepts(text)
        )
    return {"integer": 1, "number": 1, "boolean": True}[kind]


def positions(value: Any) -> Iterator[tuple[Any, ...]]:
    """The path of each value in *value*, itself first."""
    yield ()
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, member in members:
        yield from ((name, *rest) for rest in positions(member))


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], by)
    return copy


CASES = [(name, path) for name, validator in VALIDATORS.items() for path in positions(good(validator.schema))]


def peak(work: Callable[[], object]) -> int:
    """Bytes that *work* had allocated at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("name", "path"), CASES)
def test_a_huge_value_at_any_position_is_refused_without_writing_it_out(name: str, path: tuple[Any, ...]) -> None:
    validator = VALIDATORS[name]
    sound = good(validator.schema)
    assert validator.accepts(sound)
    entered: list[int] = []
    finder = type(validator._finder)
    descend = finder.descend
    finder.descend = lambda self, *args, **more: entered.append(1) or descend(self, *args, **more)
    try:
        for name, huge in HUGE.items():
            value = replaced(sound, path, huge)
            words: list[str | None] = []
            accepting = peak(lambda: validator.accepts(value))  # noqa: B023  # called before the next turn of the loop
            refusing = peak(lambda: words.append(validator.best_fault(value)))  # noqa: B023  # called before the next turn of the loop
            assert len(words[0] or "") < 20_000
            assert refusing < accepting + SIZES[name] * 3 / 4 + BESIDE
        assert len(entered) < 1000 * len(HUGE)
    finally:
        finder.descend = descend


def test_a_huge_key_is_not_repeated_as_a_path() -> None:
    validator = VALIDATORS["allocations REPLACE_ONE"]
    value = good(validator.schema) | {"mappings": {"a" * 100_000: 1}}
    assert len(validator.best_fault(value) or "") < 10_000


texts = st.text(alphabet="ab'\"\\\n\0é🖥", max_size=40)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda parts: st.one_of(st.lists(parts, max_size=4), st.dictionaries(texts, parts, max_size=4)),
)


@settings(deadline=None)
@given(json_values, st.integers(1, 40).map(lambda half: 2 * half))
def test_an_excerpt_is_what_python_writes_without_its_middle(value: Any, limit: int) -> None:
    assert excerpt(value, limit) == shorten(repr(value), limit)


@pytest.mark.parametrize("number", [1, 2, 40, 599, 600, 601, 5000])
@pytest.mark.parametrize("patterns", [{}, {"^y": {}}])
def test_many_unexpected_names_are_told_in_the_words_of_jsonschema(number: int, patterns: dict[str, Any]) -> None:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    validator = Validator({**schema, "patternProperties": patterns} if patterns else schema)
    value = {f"x{name * 7919 % 5003}": 1 for name in range(number)}
    expected = next(validator.reference.iter_errors(value)).message
    assert (validator.best_fault(value) or "").startswith(f"{shorten(expected)} Failed validating")


def grown(unit: str, size: int) -> bytes:
    return f"[{','.join([unit] * ((size - 2) // (len(unit) + 1)))}]".encode()


@pytest.mark.parametrize("unit", ["[]", "{}", '{"":0}', "[0]", "0", "1.5", '"a"', "null", f"{'[' * 900}{']' * 900}"])
def test_a_body_of_more_values_than_memory_should_hold_is_not_parsed(unit: str) -> None:
    assert not counts_at_most(grown(unit, 1_000_000), most_values(1_000_000))


def test_the_values_of_a_body_are_counted() -> None:
    for value in ([], [1], {"a": 1, "b": [2, 3]}, [[[]]], {"a": {"b": {"c": 1}}}):
        body = orjson.dumps(value)
        number = len(re.findall(rb"[,{\[]", body))
        padded = body + b" " * 50
        assert counts_at_most(padded, number)
        assert not counts_at_most(padded, number - 1)


def takes_lists(schema: dict[str, Any]) -> bool:
    """Whether values of *schema* may have any number of members."""
    if schema.get("type") == "array" or "patternProperties" in schema:
        return True
    return any(takes_lists(part) for part in schema.get("properties", {}).values())


@pytest.mark.parametrize(("method", "path"), [key for key, operation in OPERATIONS.items() if operation.body])
def test_only_bodies_that_describe_one_thing_have_the_small_limit(method: str, path: str) -> None:
    schema = OPERATIONS[method, path].body
    most = RequestLimits().body_size
    assert schema is not None
    path = re.sub(r"{\w+}", "x", path)
    assert longest_body(method, path, most) == (most if takes_lists(schema) else SMALL)
    assert longest_body(method, path, 10) == 10


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", ""), ("PUT", "/nowhere"), ("PUT", "/allocations/a/b"), ("GET", "/allocations"), ("DELETE", "/reshaper")],
)
def test_what_takes_no_list_has_the_small_limit(method: str, path: str) -> None:
    assert longest_body(method, path, RequestLimits().body_size) == SMALL
