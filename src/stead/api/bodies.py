"""JSON bodies: their limits, which form is accepted, and which value is built from it.

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

from stead.api.errors import MalformedBody, Refused
from stead.api.request import BodyIncomplete, BodyTooLong, is_like, is_strict
from stead.api.validation import FAULTS_LOOKED_AT, Predicates, are_unique, excerpt, keywords, shorten
from stead.domain.moments import from_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from stead.api.request import Request, Response
    from stead.api.versions import Versioned
    from stead.domain.claim import Claim
    from stead.domain.request import RequestGroup


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


# The limits of one request. A request over a limit is refused before it reads or writes anything.
#
# Source: "Limits", docs/api.md, which also explains the defaults.


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum values for one request; ``body`` and ``query`` are in bytes."""

    body: int = 16 * 1024 * 1024
    query: int = 64_000
    groups: int = 3000
    suffix: int = 64
    allocations: int = 250_000
    claims: int = 1000
    tree_providers: int = 10_000

    def require_groups(self, groups: Sequence[RequestGroup]) -> None:
        """Refuse too many request groups, or one whose suffix is too long.

        Raises:
            Refused: 400
        """
        if len(groups) > self.groups:
            raise Refused(400, f"The query has {len(groups)} request groups; at most {self.groups} are accepted.")
        longest = max((len(group.suffix) for group in groups), default=0)
        if longest > self.suffix:
            raise Refused(400, f"A suffix has {longest} characters; at most {self.suffix} are accepted.")

    def require_allocations(self, claims: Iterable[Claim]) -> None:
        """Refuse too many allocations. An allocation is an amount of one class, of one provider, for one consumer.

        Raises:
            Refused: 413
        """
        count = sum(len(amounts) for claim in claims for amounts in claim.allocations.values())
        if count > self.allocations:
            raise Refused(413, f"The request has {count} allocations; at most {self.allocations} are accepted.")

    def require_claims(self, claims: Sequence[object], queries: Iterable[str]) -> None:
        """Refuse too many claims in one request, and queries longer than the limit for URLs.

        Raises:
            Refused: 413
        """
        if len(claims) > self.claims:
            raise Refused(413, f"The request has {len(claims)} claims; at most {self.claims} are accepted.")
        if any(len(query.encode("utf-8", "surrogatepass")) > self.query for query in queries):
            raise Refused(413, f"A query has more than {self.query} bytes.")

    def require_tree_providers(self, counts: Sequence[int]) -> None:
        """Refuse too many providers in one document of provider trees.

        Args:
            counts: the number of providers in each tree of the document.

        Raises:
            Refused: 413, with the place of the first provider over the limit.
        """
        count = sum(counts)
        if count <= self.tree_providers:
            return
        before = 0
        for tree, size in enumerate(counts):
            if before + size > self.tree_providers:
                place = f"provider_trees[{tree}].providers[{self.tree_providers - before}]"
                most = f"at most {self.tree_providers} are accepted ([stead] max_tree_providers)"
                raise Refused(413, f"The document has {count} providers; {most}. The first one too many is {place}.")
            before += size


class Sizes:
    """Falcon middleware: refuses long queries and bodies before routing."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def process_request(self, req: Request, _resp: Response) -> None:
        """Refuse a long query, and a body whose declared length is too long; set the limit for other bodies."""
        if len(req.query_string) > self._limits.query:
            raise Refused(414, f"The query has more than {self._limits.query} bytes.")
        req.longest_body = longest_body(req.method, req.path, self._limits.body)
        if (req.content_length or 0) > req.longest_body:
            raise Refused(413, f"The body has more than {req.longest_body} bytes.")


# The maximum length of a body by route. HTTP servers that read bodies before the application also use this.
#
# Source: "Limits", docs/api.md.


SMALL = 64 * 1024
"""Maximum size in bytes of a body that describes one object: a provider, an inventory, a name."""

_LISTS = frozenset(
    {
        ("POST", "/allocations"),
        ("POST", "/reshaper"),
        ("POST", "/claims"),
        ("POST", "/whatif"),
        ("PUT", "/provider_trees"),
    }
)
_METHODS_OF_LISTS = frozenset({"POST", "PUT"})
_LISTS_OF_A_PROVIDER = frozenset({"aggregates", "inventories", "traits"})

_BYTES_PER_VALUE = 12
"""The minimum average size of a value in a realistic body.

The smallest values take 2 bytes of text and up to 90 of memory: 16 MiB of nested lists took 770 MB and 11 s to parse.
"""


def longest_body(method: str, path: str, most: int) -> int:
    """Maximum size of a body in bytes; *path* is without any prefix, *most* is `[stead] max_body_size`."""
    return most if _takes_lists(method, path) else min(SMALL, most)


def _takes_lists(method: str, path: str) -> bool:
    if method not in _METHODS_OF_LISTS:
        return False
    if (method, path) in _LISTS:
        return True
    match method, path.split("/", 4):
        case "PUT", ["", "allocations", _]:
            return True
        case "PUT", ["", "resource_providers", _, noun]:
            return noun in _LISTS_OF_A_PROVIDER
    return False


def most_values(longest: int) -> int:
    """Maximum number of JSON values (members of objects, elements of arrays) in a body of at most *longest* bytes."""
    return longest // _BYTES_PER_VALUE


def counts_at_most(body: bytes, values: int) -> bool:
    """Whether *body* has at most that number of JSON values, counted without parsing it.

    Each value but the first follows a comma or the start of a container. These characters count in strings too, so
    the count may be too high.
    """
    return len(body) <= values or sum(body.count(start) for start in (b",", b"[", b"{")) <= values
