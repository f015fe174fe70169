"""Validation by JSON Schema: compiled predicates accept valid values quickly, and jsonschema explains faults.

Almost all bodies and queries are valid, and validating them with jsonschema takes longer than the rest of the HTTP
layer. A predicate implements each keyword as jsonschema does, and only the keywords that Stead's schemas use.
"""

from __future__ import annotations

import re
from heapq import nlargest, nsmallest
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from jsonschema.exceptions import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Accepts = Callable[[Any], object]
    Schema = Mapping[str, Any]
    Keyword = Callable[[Any, Any, Any, Schema], Iterator[ValidationError]]
    Container = dict[str, object] | list[object]


class Predicates:
    """Builds predicates: functions that return a true value for each valid value."""

    def __init__(self, formats: Mapping[str, Accepts]) -> None:
        """*formats*: the predicate of each format, by its name."""
        self._formats = formats

    def of(self, schema: Schema) -> Accepts:
        """The predicate for JSON values of *schema*.

        Raises:
            KeyError: the schema has an unsupported keyword, type or format.
        """
        # The type first: the checks after it then get values of that type only.
        keywords = sorted(schema.keys() - _OF_MEMBERS, key=lambda keyword: (keyword != "type", keyword))
        checks = [self._check(keyword, schema) for keyword in keywords]
        if not _OF_MEMBERS.isdisjoint(schema):
            checks.append(self._members(schema))

        def accepts(value: object) -> bool:
            for check in checks:  # noqa: SIM110  # `all` over a generator would take longer than most checks
                if not check(value):
                    return False
            return True

        return checks[0] if len(checks) == 1 else accepts

    def _check(self, keyword: str, schema: Schema) -> Accepts:
        operand = schema[keyword]
        match keyword:
            case "type":
                return _any([_TYPES[name] for name in ([operand] if isinstance(operand, str) else operand)])
            case "anyOf":
                return _any(list(map(self.of, operand)))
            case "format":
                return self._formats[operand]
            case "enum":
                return lambda value: isinstance(value, str) and value in operand
            case "items" | "propertyNames":
                operand = self.of(operand)
        kind, make = _KEYWORDS[keyword]
        return _only(kind, schema, make(operand))

    def _members(self, schema: Schema) -> Accepts:
        named = {name: self.of(part) for name, part in schema.get("properties", {}).items()}
        patterns = schema.get("patternProperties", {})
        matched = [(re.compile(pattern).search, self.of(part)) for pattern, part in patterns.items()]
        may_have_others = schema.get("additionalProperties", True)

        def accepts(members: Mapping[str, object]) -> bool:
            for name, value in members.items():
                check = named.get(name)
                is_known = check is not None or may_have_others
                if check is not None and not check(value):
                    return False
                for matches, accepts in matched:
                    if matches(name):
                        if not accepts(value):
                            return False
                        is_known = True
                if not is_known:
                    return False
            return True

        return _only("object", schema, accepts)


def _any(checks: Sequence[Accepts]) -> Accepts:
    return checks[0] if len(checks) == 1 else lambda value: any(check(value) for check in checks)


def _only(kind: str, schema: Schema, check: Accepts) -> Accepts:
    """*check* for values of one kind; a value of another kind is valid."""
    if schema.get("type") in (kind, _NARROWER.get(kind, kind)):
        return check  # the check of the type has refused all others
    is_of_kind = _TYPES[kind]
    return lambda value: check(value) if is_of_kind(value) else True


def _each(check: Accepts) -> Accepts:
    return lambda values: all(map(check, values))


def _is_integer(value: object) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES: dict[str, Accepts] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}

_NARROWER = {"number": "integer"}
"""The type that is part of another one."""

_OF_MEMBERS = frozenset({"properties", "patternProperties", "additionalProperties"})
"""Keywords that only together decide which members an object may have."""


def _unique_strings(values: Sequence[object]) -> bool:
    strings = [value for value in values if isinstance(value, str)]
    return len(set(strings)) == len(strings)


_KEYWORDS: dict[str, tuple[str, Callable[[Any], Accepts]]] = {
    "pattern": ("string", lambda pattern: re.compile(pattern).search),
    "minLength": ("string", lambda least: lambda text: len(text) >= least),
    "maxLength": ("string", lambda most: lambda text: len(text) <= most),
    "minimum": ("number", lambda least: lambda number: number >= least),
    "maximum": ("number", lambda most: lambda number: number <= most),
    "minItems": ("array", lambda least: lambda items: len(items) >= least),
    "maxItems": ("array", lambda most: lambda items: len(items) <= most),
    "items": ("array", _each),
    "uniqueItems": ("array", lambda _wanted: _unique_strings),
    "required": ("object", lambda names: lambda members: all(map(members.__contains__, names))),
    "minProperties": ("object", lambda least: lambda members: len(members) >= least),
    "maxProperties": ("object", lambda most: lambda members: len(members) <= most),
    "propertyNames": ("object", _each),
}
"""For each keyword, the type of the values that it restricts, and a function from its argument to a predicate."""


# Faults: jsonschema's errors and messages, at a cost that the size of a body bounds.
#
# jsonschema writes out every value that it rejects, enters every member of every container, and sorts all unexpected
# names. For a body of the maximum size that takes minutes and gigabytes. The keywords here find the same errors in
# the same order, but their messages omit the middle of long values.


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


# Excerpts: the `repr` of a JSON value without its middle, produced without writing the whole text.
#
# An error message repeats what a client sent. For a body of the maximum size, the full text would take more time and
# memory than the request itself.


LIMIT = 1000
"""Maximum number of characters of a text that is shown completely."""


def shorten(text: str, limit: int = LIMIT) -> str:
    """*text* without its middle, if it has more than *limit* characters: it may repeat what a client sent."""
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}"


def excerpt(value: object, limit: int = LIMIT) -> str:
    """``shorten(repr(value), limit)`` of a JSON value, built from its first and last *limit* characters only."""
    head = "".join(_as_far_as(limit + 1, _pieces(value, limit, backwards=False)))
    if len(head) <= limit:
        return head
    tail = "".join(reversed(list(_as_far_as(limit // 2, _pieces(value, limit, backwards=True)))))
    return f"{head[: limit // 2]} … {tail[-limit // 2 :]}"


def _as_far_as(limit: int, pieces: Iterable[str]) -> Iterator[str]:
    """The first of *pieces*, until they have *limit* characters together."""
    missing = limit

    def is_missing(piece: str) -> bool:
        nonlocal missing
        was_missing = missing > 0
        missing -= len(piece)
        return was_missing

    return takewhile(is_missing, pieces)


def _pieces(value: object, most: int, *, backwards: bool) -> Iterator[str]:
    """The text of *value* in pieces; of a string longer than *most*, only the end that is written first.

    A list holds the open containers instead of recursion: clients can nest deeper than Python's recursion limit.
    """
    if not isinstance(value, dict | list):
        yield _leaf(value, most, backwards=backwards)
        return
    levels = [_members(value, most, backwards=backwards)]
    while levels:
        part = next(levels[-1], None)
        if part is None:
            levels.pop()
        elif isinstance(part, str):
            yield part
        else:
            levels.append(_members(part, most, backwards=backwards))


def _members(container: Container, most: int, *, backwards: bool) -> Iterator[str | Container]:
    """Texts, and nested containers, which the caller replaces with their own members."""

    def written(value: object) -> str | Container:
        return value if isinstance(value, dict | list) else _leaf(value, most, backwards=backwards)

    first, last = ("{", "}") if isinstance(container, dict) else ("[", "]")
    yield last if backwards else first
    separator = ""
    members: Any = container.items() if isinstance(container, dict) else container
    for member in reversed(members) if backwards else members:
        yield separator
        separator = ", "
        if isinstance(container, list):
            yield written(member)
        else:
            name, value = member
            yield from (written(value), ": ", written(name)) if backwards else (written(name), ": ", written(value))
    yield first if backwards else last


def _leaf(value: object, most: int, *, backwards: bool) -> str:
    if not isinstance(value, str) or len(value) <= most:
        return repr(value)
    # The whole string decides which quotes Python puts around it.
    if "'" in value and '"' not in value:
        quote, forced = '"', "'"
    else:
        quote, forced = "'", "'\""
    skipped = len(repr(forced)) - 1
    part = repr(forced + (value[-most:] if backwards else value[:most]))[skipped:-1]
    return part + quote if backwards else quote + part
