"""JSON bodies: which form is accepted, which value is built from it, and the parts that several routes share.

The wording of a refusal follows jsonschema's, on which clients match. Its best match is the error nearest the root of
the document.
Source: "Form of the validation messages", "Shared definitions" and "Writing allocations", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson

from stead.api.answers import MalformedBody
from stead.api.request import BodyIncomplete, BodyTooLong, Refused, counts_at_most, most_values
from stead.api.validation import MOMENT, ONE_LINE, STORABLE, Schema, Validator
from stead.api.versions import V, Versioned
from stead.domain.claim import UNCHANGED, UNCHECKED, Claim, Lease, OnExpiry
from stead.domain.moments import from_text
from stead.domain.names import NAME_LENGTH, RESOURCE_CLASS_NAME
from stead.domain.provider import MAX_FLOAT, MAX_INT, MOST_OF_PROVIDER, Inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stead.api.request import Request
    from stead.api.versions import Microversion
    from stead.domain.claim import Expected, Unchanged


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
