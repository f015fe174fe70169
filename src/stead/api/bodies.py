"""JSON bodies: which form is accepted, and which value it stands for.

The words of a refusal follow jsonschema's, which clients match; its best match is the error nearest the
document's root.
Source: "Form of the validation messages", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend

from stead.api import uuids
from stead.api.acceptance import Predicates
from stead.api.body_limits import counts_at_most, most_values
from stead.api.errors import MalformedBody, Refused
from stead.api.excerpts import excerpt, shorten
from stead.api.faults import FAULTS_LOOKED_AT, keywords
from stead.api.request import BodyIncomplete, BodyTooLong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stead.api.request import Request
    from stead.api.versions import Versioned

T = TypeVar("T")

Schema = dict[str, Any]

STORABLE = "text without NUL"
"""A format for what is stored as it is given: PostgreSQL stores no NUL."""

ONE_LINE = "single line"
"""A format beside a pattern, whose final ``$`` lets a line break pass."""


def _formats(is_uuid: Callable[[str], bool]) -> FormatChecker:
    checker = FormatChecker(formats=())
    checker.checks("uuid")(lambda value: not isinstance(value, str) or is_uuid(value))
    checker.checks(STORABLE)(lambda value: not isinstance(value, str) or "\0" not in value)
    checker.checks(ONE_LINE)(lambda value: not isinstance(value, str) or not value.endswith("\n"))
    return checker


LENIENT_UUIDS = _formats(uuids.is_like)
"""What bodies accept."""

STRICT_UUIDS = _formats(uuids.is_strict)
"""What queries accept."""


def _unique_items(_validator: Any, wanted: bool, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Jsonschema's own check compares all pairs when items can not be sorted, which a large body could abuse."""
    if wanted and isinstance(instance, list):
        strings = [item for item in instance if isinstance(item, str)]
        if len(set(strings)) < len(strings):
            yield ValidationError(f"{instance!r} has non-unique elements")


_Validator: Any = extend(Draft202012Validator, {"uniqueItems": _unique_items})  # type: ignore[no-untyped-call]  # the stubs know no types


class Validator:
    """A compiled schema: ``accepts`` says yes or no at once; the words for a no are jsonschema's.

    ``reference`` is jsonschema as it is, which all else must agree with.
    """

    def __init__(self, schema: Schema, *, formats: FormatChecker = LENIENT_UUIDS) -> None:
        _Validator.check_schema(schema)
        self.schema = schema
        self._predicates = Predicates({name: check for name, (check, _) in formats.checkers.items()})
        self.accepts = self._predicates.of(schema)
        self.reference = _Validator(schema, format_checker=formats)

    def faults(self, value: object) -> Iterator[ValidationError]:
        """All that is wrong with *value*, in the order of the schema's keywords."""
        found: Iterator[ValidationError] = self._finder.iter_errors(value)
        return found

    def best_fault(self, value: object) -> str | None:
        """What is wrong with *value*, in jsonschema's choice; None if nothing is."""
        if self.accepts(value):
            return None
        fault = best_match(islice(self.faults(value), FAULTS_LOOKED_AT))
        return None if fault is None else _words(fault)

    def first_fault(self, value: object) -> str | None:
        """What is wrong with *value*, in the order of the schema's keywords; None if nothing is."""
        if self.accepts(value):
            return None
        fault = next(self.faults(value), None)
        return None if fault is None else _words(fault)

    @cached_property
    def _finder(self) -> Any:
        """Jsonschema with our own keywords, at a bounded cost."""
        finder: Any = extend(_Validator, keywords(self._predicates))  # type: ignore[no-untyped-call]  # the stubs know no types
        return finder(self.schema, format_checker=self.reference.format_checker)


@dataclass(frozen=True)
class Body(Generic[T]):
    """One form of a body: its schema, and how the value it stands for is built from what the schema let through."""

    schema: Schema
    build: Callable[[Any], T]
    validator: Validator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "validator", Validator(self.schema))


def read_body(req: Request, forms: Versioned[Body[T]]) -> T:
    """The value of the request's body, in the form of its microversion.

    Raises:
        MalformedBody: not UTF-8, not JSON, or not of that form.
        Refused: 413, too long, or too many values.
    """
    form = forms.at(req.version)
    try:
        value = _parsed(req.read_all(), most_values(req.longest_body))
    except BodyTooLong as error:
        raise Refused(413, f"The body has more than {error} bytes.") from None
    except BodyIncomplete as error:
        raise MalformedBody(str(error)) from None
    except orjson.JSONDecodeError as error:
        raise MalformedBody(f"Malformed JSON: {error}") from None
    try:
        fault = form.validator.best_fault(value)
    except RecursionError:
        fault = "it is nested too deeply"
    if fault is not None:
        raise MalformedBody(f"JSON does not validate: {fault}")
    return form.build(value)


def _parsed(body: bytes, most: int) -> object:
    if not counts_at_most(body, most):
        raise Refused(413, f"The body has more than {most} JSON values.")
    return orjson.loads(body)


def strict_object(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, **more: Any) -> Schema:
    """The schema of an object with these properties and no others.

    Keywords that speak of the object itself come before those that speak of its parts.
    """
    properties = {**required, **(optional or {})}
    head: Schema = {"type": "object", "required": list(required)} if required else {"type": "object"}
    return {**head, "additionalProperties": False, **more, "properties": properties}


def mapping(pattern: str, of: Schema, **more: Any) -> Schema:
    """The schema of an object whose keys match *pattern* and whose values are *of* one schema."""
    return {"type": "object", **more, "additionalProperties": False, "patternProperties": {pattern: of}}


def _words(fault: ValidationError) -> str:
    in_schema = "".join(f"[{part!r}]" for part in list(fault.relative_schema_path)[:-1])
    on_instance = "".join(f"[{excerpt(part)}]" for part in fault.relative_path)
    return (
        f"{shorten(fault.message)} Failed validating {fault.validator!r} in schema{in_schema}: "
        f"{shorten(repr(fault.schema))} On instance{on_instance}: {excerpt(fault.instance)}"
    )
