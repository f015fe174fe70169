"""Schemas compiled to predicates: they validate a value much faster than jsonschema, but do not explain a fault.

Almost all bodies and queries are valid, and validating them with jsonschema takes longer than the rest of the HTTP
layer. A predicate implements each keyword as jsonschema does, and only the keywords that Stead's schemas use.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Accepts = Callable[[Any], object]
    Schema = Mapping[str, Any]


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
