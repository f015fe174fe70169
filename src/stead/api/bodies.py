"""JSON bodies: which form is accepted, and which value is built from it.

The wording of a refusal follows jsonschema's, on which clients match. Its best match is the error nearest the root of
the document.
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
from stead.domain.moments import from_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from stead.api.request import Request
    from stead.api.versions import Versioned

T = TypeVar("T")

Schema = dict[str, Any]

STORABLE = "text without NUL"
"""A format for text that is stored unchanged: PostgreSQL cannot store NUL."""

MOMENT = "date-time"
"""A format for a moment with its time zone."""

ONE_LINE = "single line"
"""A format beside a pattern, since the pattern's final ``$`` admits a line break."""


def _formats(is_uuid: Callable[[str], bool]) -> FormatChecker:
    checker = FormatChecker(formats=())
    checker.checks("uuid")(lambda value: not isinstance(value, str) or is_uuid(value))
    checker.checks(STORABLE)(lambda value: not isinstance(value, str) or "\0" not in value)
    checker.checks(ONE_LINE)(lambda value: not isinstance(value, str) or not value.endswith("\n"))
    checker.checks(MOMENT)(lambda value: not isinstance(value, str) or _is_moment(value))
    return checker


def _is_moment(text: str) -> bool:
    try:
        from_text(text)
    except (ValueError, OverflowError):
        return False
    return True


LENIENT_UUIDS = _formats(uuids.is_like)
"""Spellings that bodies accept."""

STRICT_UUIDS = _formats(uuids.is_strict)
"""Spellings that queries accept."""


def _unique_items(_validator: Any, is_required: bool, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Check in linear time. Jsonschema compares all pairs if items cannot be sorted, which a large body could abuse."""
    if is_required and isinstance(instance, list):
        strings = [item for item in instance if isinstance(item, str)]
        if len(set(strings)) < len(strings):
            yield ValidationError(f"{instance!r} has non-unique elements")


_Validator: Any = extend(Draft202012Validator, {"uniqueItems": _unique_items})  # type: ignore[no-untyped-call]  # the stubs know no types


class Validator:
    """A compiled schema: ``accepts`` decides quickly; jsonschema words the faults.

    ``reference`` is the unmodified jsonschema validator, with which the others must agree.
    """

    def __init__(self, schema: Schema, *, formats: FormatChecker = LENIENT_UUIDS) -> None:
        _Validator.check_schema(schema)
        self.schema = schema
        self._predicates = Predicates({name: check for name, (check, _) in formats.checkers.items()})
        self.accepts = self._predicates.of(schema)
        self.reference = _Validator(schema, format_checker=formats)

    def faults(self, value: object) -> Iterator[ValidationError]:
        """All faults of *value*, in the order of the schema's keywords."""
        errors: Iterator[ValidationError] = self._finder.iter_errors(value)
        return errors

    def best_fault(self, value: object, *, placed: bool = False) -> str | None:
        """The fault of *value* that jsonschema's best match selects; None if *value* is valid.

        Args:
            placed: put the place before a short message, as ``claims[3].query: …``, instead of jsonschema's form.
        """
        if self.accepts(value):
            return None
        fault = best_match(islice(self.faults(value), FAULTS_LOOKED_AT))
        if fault is None:
            return None
        return _placed_words(fault) if placed and fault.absolute_path else _words(fault)

    def first_fault(self, value: object) -> str | None:
        """The first fault of *value*, in the order of the schema's keywords; None if *value* is valid."""
        if self.accepts(value):
            return None
        fault = next(self.faults(value), None)
        return None if fault is None else _words(fault)

    @cached_property
    def _finder(self) -> Any:
        """Jsonschema with Stead's own keywords, whose cost is bounded."""
        finder: Any = extend(_Validator, keywords(self._predicates))  # type: ignore[no-untyped-call]  # the stubs know no types
        return finder(self.schema, format_checker=self.reference.format_checker)


@dataclass(frozen=True)
class Body(Generic[T]):
    """One form of a body: its schema, and the function that builds a value from a valid body."""

    schema: Schema
    build: Callable[[Any], T]
    placed: bool = False
    """Messages begin with the place of the fault, which helps with large documents."""
    validator: Validator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "validator", Validator(self.schema))


def read_body(req: Request, forms: Versioned[Body[T]]) -> T:
    """The value of the request's body, in the form of its microversion.

    Raises:
        MalformedBody: not UTF-8, not JSON, or not of that form.
        Refused: 413, the body is too long or has too many values.
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
        fault = form.validator.best_fault(value, placed=form.placed)
    # orjson accepts bodies that are nested deeper than the checks can recurse.
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

    Keywords for the object itself come before the keywords for its members, since the order decides the error.
    """
    properties = {**required, **(optional or {})}
    head: Schema = {"type": "object", "required": list(required)} if required else {"type": "object"}
    return {**head, "additionalProperties": False, **more, "properties": properties}


def mapping(pattern: str, value: Schema, **more: Any) -> Schema:
    """The schema of an object whose keys match *pattern* and whose values are *value* one schema."""
    return {"type": "object", **more, "additionalProperties": False, "patternProperties": {pattern: value}}


def _placed_words(fault: ValidationError) -> str:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{excerpt(part)[1:-1]}" for part in fault.absolute_path)
    return f"{place.removeprefix('.')}: {shorten(fault.message)}"


def _words(fault: ValidationError) -> str:
    in_schema = "".join(f"[{part!r}]" for part in list(fault.relative_schema_path)[:-1])
    on_instance = "".join(f"[{excerpt(part)}]" for part in fault.relative_path)
    return (
        f"{shorten(fault.message)} Failed validating {fault.validator!r} in schema{in_schema}: "
        f"{shorten(repr(fault.schema))} On instance{on_instance}: {excerpt(fault.instance)}"
    )
