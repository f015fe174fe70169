"""Faults: jsonschema's errors and messages, at a cost that the size of a body bounds.

jsonschema writes out every value that it rejects, enters every member of every container, and sorts all unexpected
names. For a body of the maximum size that takes minutes and gigabytes. The keywords here find the same errors in the
same order, but their messages omit the middle of long values.
"""

from __future__ import annotations

import re
from heapq import nlargest, nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any

from jsonschema.exceptions import ValidationError

from stead.api.excerpts import LIMIT, excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stead.api.acceptance import Predicates, Schema

    Keyword = Callable[[Any, Any, Any, Schema], Iterator[ValidationError]]

FAULTS_LOOKED_AT = 100
"""Number of faults to choose the message from. A body may have a million; those near the root come first."""

_NAMES_SHOWN = 300
"""Names at each end of a sorted list. More names do not fit into a message: each takes at least four characters."""


def keywords(predicates: Predicates) -> dict[str, Keyword]:
    """The keywords of Stead's schemas, for `jsonschema.validators.extend`; *predicates* decide which value is valid."""
    judged = {keyword: _judged(predicates, keyword, verdict) for keyword, verdict in _VERDICTS.items()}
    return {
        **judged,
        "additionalProperties": _additional_properties,
        "anyOf": _any_of,
        "items": _items(predicates),
        "patternProperties": _pattern_properties(predicates),
        "propertyNames": _property_names(predicates),
    }


def _fault(value: object, verdict: str) -> ValidationError:
    return ValidationError(f"{excerpt(value)} {verdict}")


def _least(text: str) -> Callable[[Any], str]:
    return lambda least: "should be non-empty" if least == 1 else text


def _names(types: str | Sequence[str]) -> str:
    return ", ".join(map(repr, [types] if isinstance(types, str) else types))


_VERDICTS: dict[str, Callable[[Any], str]] = {
    "enum": lambda values: f"is not one of {values!r}",
    "format": lambda name: f"is not a {name!r}",
    "maxLength": lambda _most: "is too long",
    "maxItems": lambda most: f"is too long: more than {most}",
    "maxProperties": lambda most: f"has too many properties: more than {most}",
    "minItems": _least("is too short"),
    "minLength": _least("is too short"),
    "minProperties": _least("does not have enough properties"),
    "pattern": lambda pattern: f"does not match {pattern!r}",
    "type": lambda types: f"is not of type {_names(types)}",
    "uniqueItems": lambda _wanted: "has non-unique elements",
}
"""The end of the message, after the value, for keywords that check a value on its own."""


def _judged(predicates: Predicates, keyword: str, verdict: Callable[[Any], str]) -> Keyword:
    def check(_validator: Any, demanded: Any, value: Any, _schema: Schema) -> Iterator[ValidationError]:
        if not predicates.of({keyword: demanded})(value):
            yield _fault(value, verdict(demanded))

    return check


def _any_of(validator: Any, schemas: Sequence[Schema], value: Any, _schema: Schema) -> Iterator[ValidationError]:
    faults: list[ValidationError] = []
    for index, schema in enumerate(schemas):
        of_schema = list(islice(validator.descend(value, schema, schema_path=index), FAULTS_LOOKED_AT))
        if not of_schema:
            return
        faults += of_schema
    yield ValidationError(f"{excerpt(value)} is not valid under any of the given schemas", context=faults)


def _additional_properties(
    _validator: Any, may_have_others: bool, value: Any, schema: Schema
) -> Iterator[ValidationError]:
    if may_have_others or not isinstance(value, dict):
        return
    properties = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    matches = re.compile("|".join(patterns)).search if patterns else None
    names = [name for name in value if name not in properties and not (matches and matches(name))]
    if not names:
        return
    is_one = len(names) == 1
    if patterns:
        regexes = ", ".join(map(repr, sorted(patterns)))
        verb = "does" if is_one else "do"
        yield ValidationError(f"{_sorted(names)} {verb} not match any of the regexes: {regexes}")
    else:
        verb = "was" if is_one else "were"
        yield ValidationError(f"Additional properties are not allowed ({_sorted(names)} {verb} unexpected)")


def _sorted(names: Sequence[str]) -> str:
    """All *names*, sorted and separated by commas, without the middle of a long text."""
    shown = (
        sorted(names)
        if len(names) <= 2 * _NAMES_SHOWN
        else [*nsmallest(_NAMES_SHOWN, names), *reversed(nlargest(_NAMES_SHOWN, names))]
    )
    return excerpt(shown, LIMIT + 4)[1:-1]  # without the brackets; the limit allows for them and the quotes


def _items(predicates: Predicates) -> Keyword:
    def check(validator: Any, schema: Schema, value: Any, _schema: Schema) -> Iterator[ValidationError]:
        if isinstance(value, list):
            accepts = predicates.of(schema)
            for index, item in enumerate(value):
                if not accepts(item):
                    yield from validator.descend(item, schema, path=index)

    return check


def _pattern_properties(predicates: Predicates) -> Keyword:
    def check(validator: Any, patterns: Mapping[str, Schema], value: Any, _schema: Schema) -> Iterator[ValidationError]:
        if isinstance(value, dict):
            for pattern, schema in patterns.items():
                accepts, matches = predicates.of(schema), re.compile(pattern).search
                for name, member in value.items():
                    if not accepts(member) and matches(name):
                        yield from validator.descend(member, schema, path=name, schema_path=pattern)

    return check


def _property_names(predicates: Predicates) -> Keyword:
    def check(validator: Any, schema: Schema, value: Any, _schema: Schema) -> Iterator[ValidationError]:
        if isinstance(value, dict):
            accepts = predicates.of(schema)
            for name in value:
                if not accepts(name):
                    yield from validator.descend(name, schema)

    return check
