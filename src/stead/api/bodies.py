"""Bodies and queries by JSON Schema: which form is accepted, the words that refuse others, and the values of bodies.

A validator in Rust accepts valid values quickly, and jsonschema explains faults. Almost all bodies and queries are
valid, and validating them with jsonschema takes longer than the rest of the HTTP layer. The words of jsonschema's
messages stay, because clients match on them. Its best match is the error nearest the root of the document.

Source: "Form of the validation messages", "Shared definitions" and "Writing allocations", docs/api.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nlargest, nsmallest
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend
from jsonschema_rs import Draft202012Validator as FastValidator

from stead.api.request import (
    BodyIncomplete,
    BodyTooLong,
    MalformedBody,
    Refused,
    counts_at_most,
    is_like,
    is_strict,
    most_values,
)
from stead.api.versions import V, Versioned
from stead.domain.claim import UNCHANGED, UNCHECKED, Claim, Lease, OnExpiry
from stead.domain.moments import from_text
from stead.domain.names import NAME_LENGTH, RESOURCE_CLASS_NAME
from stead.domain.provider import MAX_FLOAT, MAX_INT, MOST_OF_PROVIDER, Inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from stead.api.request import Request
    from stead.api.versions import Microversion
    from stead.domain.claim import Expected, Unchanged


Schema = dict[str, Any]

if TYPE_CHECKING:
    Accepts = Callable[[Any], object]
    Keyword = Callable[[Any, Any, Any, Schema], Iterator[ValidationError]]
    Container = dict[str, object] | list[object]


class Predicates:
    """Builds predicates of schemas: a value that one accepts is valid.

    A predicate may refuse a valid value, so jsonschema has the last word. Here, a ``$`` admits no line break, equal
    items are refused even if they are no text, and so is what the validator cannot convert.
    """

    def __init__(self, formats: Mapping[str, Callable[[str], bool]]) -> None:
        """*formats*: the predicate of each format, by its name."""
        self._formats = dict(formats)

    def of(self, schema: Schema) -> Accepts:
        """The predicate for JSON values of *schema*."""
        is_valid = FastValidator(schema, formats=self._formats, validate_formats=True).is_valid

        def accepts(value: object) -> bool:
            try:
                return is_valid(value)
            except ValueError:  # half of a surrogate pair, which clients can write in JSON
                return False

        return accepts

    def refuses(self, keyword: str, demanded: Any, value: Any) -> bool:
        """Whether *value* breaks one keyword, as jsonschema decides it."""
        if keyword == "format":  # without the copy of a text that the validator would pass
            return isinstance(value, str) and not self._formats[demanded](value)
        if self.of({keyword: demanded})(value):
            return False
        if keyword == "pattern" and isinstance(value, str):
            return re.search(demanded, value) is None
        return keyword != "uniqueItems" or not are_unique(value)


def are_unique(items: object) -> bool:
    """Whether no text occurs twice in *items*, in linear time. Other items count as different."""
    texts = [item for item in items if isinstance(item, str)] if isinstance(items, list) else []
    return len(set(texts)) == len(texts)


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
        if predicates.refuses(keyword, demanded, value):
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


# One schema: what it accepts, and the words of its faults.


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


LENIENT_UUIDS = _formats(is_like)
"""Spellings that bodies accept."""

STRICT_UUIDS = _formats(is_strict)
"""Spellings that queries accept."""


def _unique_items(_validator: Any, is_required: bool, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Check in linear time. Jsonschema compares all pairs if items cannot be sorted, which a large body could abuse."""
    if is_required and not are_unique(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


_Validator: Any = extend(Draft202012Validator, {"uniqueItems": _unique_items})  # type: ignore[no-untyped-call]  # the stubs know no types


class Validator:
    """A compiled schema: ``accepts`` decides quickly; jsonschema words the faults.

    ``reference`` is the unmodified jsonschema validator, with which the others must agree.

    Raises:
        ValueError: *schema* is no valid schema.
    """

    def __init__(self, schema: Schema, *, formats: FormatChecker = LENIENT_UUIDS) -> None:
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


# JSON bodies: which value is built from each form, and the parts that several routes share.


T = TypeVar("T")


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


# Shared by several routes: inventories, and the requested allocations of one consumer.


UUID_KEY = "^[0-9a-fA-F-]{36}$"

UUID: Schema = {"type": "string", "format": "uuid"}
GENERATION: Schema = {"type": "integer"}
LINKS: Schema = {"type": "array", "items": strict_object({"rel": {"type": "string"}, "href": {"type": "string"}})}
EXTERNAL_ID: Schema = {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH, "format": STORABLE}
"""The id of a project or a user, which Keystone assigns."""

_AMOUNT: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_INT}

INVENTORY_FIELDS: dict[str, Schema] = {
    "reserved": {"type": "integer", "minimum": 0, "maximum": MAX_INT},
    "min_unit": _AMOUNT,
    "max_unit": _AMOUNT,
    "step_size": _AMOUNT,
    "allocation_ratio": {"type": "number", "maximum": MAX_FLOAT, "minimum": -MAX_FLOAT},
    "resource_provider_generation": GENERATION,
}
"""Optional fields of an inventory; ``total`` is required."""

TOTAL: dict[str, Schema] = {"total": _AMOUNT}

ALL_INVENTORIES = strict_object(
    {
        "resource_provider_generation": GENERATION,
        "inventories": mapping(
            RESOURCE_CLASS_NAME, strict_object(TOTAL, INVENTORY_FIELDS), maxProperties=MOST_OF_PROVIDER
        ),
    }
)
"""All inventories of one provider, with the provider's generation."""


def build_inventory(record: Mapping[str, Any]) -> Inventory:
    """The inventory that a record describes; missing fields have their defaults."""
    # JSON Schema counts 10.0 as an integer, and the value may be such a float.
    whole = {name: int(record[name]) for name in ("reserved", "min_unit", "max_unit", "step_size") if name in record}
    return Inventory(int(record["total"]), **whole, allocation_ratio=float(record.get("allocation_ratio", 1.0)))


def build_inventories(records: Mapping[str, Mapping[str, Any]]) -> dict[str, Inventory]:
    """Inventories by class name."""
    return {name: build_inventory(record) for name, record in records.items()}


def show_inventory(inventory: Inventory) -> dict[str, object]:
    """An inventory as answers show it."""
    return {
        "total": inventory.total,
        "reserved": inventory.reserved,
        "min_unit": inventory.min_unit,
        "max_unit": inventory.max_unit,
        "step_size": inventory.step_size,
        "allocation_ratio": inventory.allocation_ratio,
    }


@dataclass(frozen=True, slots=True)
class Owner:
    """Project and user, by the ids that Keystone assigned."""

    project: str
    user: str


LEASE_OPTIONS: dict[str, Schema] = {
    "lease": {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_INT},
    "expires_at": {"type": ["string", "null"], "format": MOMENT},
    "on_expiry": {"type": ["string", "null"], "enum": ["release", "mark", None]},
}
"""The end of a claim, since stead 1.2."""


def build_lease(record: Mapping[str, Any], most: int, place: str) -> Lease | Unchanged | None:
    """The end that a record of one consumer requests; None: the claim has no end.

    Args:
        most: maximum of seconds; 0: none.
        place: of the record, for messages.

    Raises:
        MalformedBody: the record has two ends, or says what happens at none.
    """
    seconds, end, on_expiry = (record.get(name) for name in LEASE_OPTIONS)
    if seconds is not None and end is not None:
        raise MalformedBody(f"JSON does not validate: {place} has both 'lease' and 'expires_at'")
    if seconds is None and end is None:
        if on_expiry is not None:
            raise MalformedBody(f"JSON does not validate: {place} has 'on_expiry' without 'lease' or 'expires_at'")
        return None if "lease" in record or "expires_at" in record else UNCHANGED
    return Lease(
        None if seconds is None else int(seconds),
        None if end is None else from_text(end),
        OnExpiry.RELEASE if on_expiry is None else OnExpiry(on_expiry),
        most,
    )


@dataclass(frozen=True, slots=True)
class AllocationsBody:
    """The requested allocations and the owner of one consumer; ``owner`` is None before microversion 1.8."""

    allocations: Mapping[str, Mapping[str, int]]
    owner: Owner | None
    consumer_type: str | None
    expected: Expected
    ends: Mapping[str, Any]
    """The fields of :data:`LEASE_OPTIONS`."""

    def claim(self, consumer: str, incomplete: Owner, longest_lease: int = 0) -> Claim:
        """The claim of *consumer*; if the request states no owner, it is *incomplete*.

        Args:
            longest_lease: in seconds; 0: any.

        Raises:
            MalformedBody: of its end.
        """
        owner = self.owner or incomplete
        lease = build_lease(self.ends, longest_lease, f"consumer {consumer}")
        return Claim(consumer, self.allocations, owner.project, owner.user, self.consumer_type, self.expected, lease)


RESOURCES = mapping(RESOURCE_CLASS_NAME, {"type": "integer", "minimum": 1}, minProperties=1)

ALLOCATIONS_LIST: Schema = {
    "type": "array",
    "minItems": 1,
    "items": strict_object({"resource_provider": strict_object({"uuid": UUID}), "resources": RESOURCES}),
}

ALLOCATIONS_BY_PROVIDER = mapping(UUID_KEY, strict_object({"resources": RESOURCES}, {"generation": GENERATION}))
"""The generation is accepted so that clients can send answers back; it is ignored."""

CONSUMER_FIELDS: dict[str, tuple[Microversion, Schema]] = {
    "project_id": (V.CONSUMER_OWNERS, EXTERNAL_ID),
    "user_id": (V.CONSUMER_OWNERS, EXTERNAL_ID),
    "consumer_generation": (V.CONSUMER_GENERATION, {"type": ["integer", "null"]}),
    "consumer_type": (
        V.CONSUMER_TYPES,
        {
            "type": "string",
            "pattern": RESOURCE_CLASS_NAME,
            "minLength": 1,
            "maxLength": NAME_LENGTH,
            "format": ONE_LINE,
        },
    ),
}
"""Required fields beside the allocations, each with its first microversion."""

CONSUMER_OPTIONS: dict[str, tuple[Microversion, Schema]] = {
    "mappings": (
        V.MAPPINGS,
        {
            "type": "object",
            "minProperties": 1,
            "patternProperties": {"[a-zA-Z0-9_-]{1,64}": {"type": "array", "minItems": 1, "items": UUID}},
        },
    ),
}
"""Optional fields, accepted so that clients can send candidates back; they are ignored."""

CONSUMER_CHANGES = (
    V.INITIAL,
    V.CONSUMER_OWNERS,
    V.ALLOCATIONS_BY_PROVIDER,
    V.CONSUMER_GENERATION,
    V.MAPPINGS,
    V.CONSUMER_TYPES,
)
"""The microversions that changed the fields of a consumer."""


def consumer(version: Microversion, allocations: Schema, ends: Mapping[str, Schema] | None = None) -> Schema:
    """The schema of one consumer's *allocations*, with all fields of *version*, and with *ends* of them."""
    required = {name: schema for name, (since, schema) in CONSUMER_FIELDS.items() if since <= version}
    optional = {name: schema for name, (since, schema) in CONSUMER_OPTIONS.items() if since <= version}
    optional |= ends or {}
    schema = strict_object({"allocations": allocations, **required}, optional)
    if version < V.ALLOCATIONS_BY_PROVIDER:
        return schema
    # If a body has two faults, the first keyword reports: unknown fields since 1.12, missing fields before.
    return {"type": "object", "additionalProperties": False, **schema}


def consumers(version: Microversion, ends: Mapping[str, Schema] | None = None, **more: Any) -> Schema:
    """The schema of the requested allocations of several consumers, by uuid, and of their *ends*."""
    # A pattern's final `$` admits a line break; the maximum length excludes it.
    return mapping(UUID_KEY, consumer(version, ALLOCATIONS_BY_PROVIDER, ends), propertyNames={"maxLength": 36}, **more)


def build_wanted(record: Mapping[str, Any]) -> AllocationsBody:
    """The request that the record of one consumer describes, in the form of any microversion."""
    allocations = record["allocations"]
    if isinstance(allocations, list):
        by_provider = {item["resource_provider"]["uuid"]: item["resources"] for item in allocations}
    else:
        by_provider = {provider: allocation["resources"] for provider, allocation in allocations.items()}
    return AllocationsBody(
        allocations={provider: _amounts(resources) for provider, resources in by_provider.items()},
        owner=Owner(record["project_id"], record["user_id"]) if "project_id" in record else None,
        consumer_type=record.get("consumer_type"),
        expected=_expected(record),
        ends={name: record[name] for name in LEASE_OPTIONS if name in record},
    )


def _amounts(resources: Mapping[str, float]) -> dict[str, int]:
    return {name: int(amount) for name, amount in resources.items()}


def _expected(record: Mapping[str, Any]) -> Expected:
    if "consumer_generation" not in record:
        return UNCHECKED
    generation = record["consumer_generation"]
    return None if generation is None else int(generation)


ALLOCATIONS = Versioned(
    {
        V.INITIAL: ALLOCATIONS_LIST,
        V.ALLOCATIONS_BY_PROVIDER: {**ALLOCATIONS_BY_PROVIDER, "minProperties": 1},
        V.CONSUMER_GENERATION: ALLOCATIONS_BY_PROVIDER,
    }
)
"""The requested allocations of a single consumer."""
