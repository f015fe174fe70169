"""Parsers of values that candidates and provider lists share: amounts, traits, aggregates, trees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlencode

from stead.api.request import is_like, normalised_uuid
from stead.api.validation import ONE_LINE
from stead.api.versions import S, V
from stead.domain.errors import InvalidQuery
from stead.domain.provider import BY_NAME
from stead.domain.request import Page, Terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stead.api.request import Request
    from stead.api.validation import Validator
    from stead.api.versions import Agreed, Step


BAD_VALUE = "placement.query.bad_value"

BEYOND = 10**40
"""Replaces every amount that is too long for Python to parse: no provider can have either amount."""

_MANY_DIGITS = re.compile(r"\s*\+?\d{1000,}\s*")

PROVIDER_REFERENCE: dict[str, Any] = {
    "anyOf": [{"type": "string", "format": "uuid"}, {"type": "string", "pattern": f"^{BY_NAME}."}]
}
"""A provider by its uuid or, after ``name:``, by its name."""

ANY_FORM = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"


def parse_resources(value: str) -> dict[str, int]:
    """``CLASS:AMOUNT[,CLASS:AMOUNT…]`` as amounts by class; of a repeated class the last applies.

    Raises:
        InvalidQuery: malformed, or an amount below 1.
    """
    badly_formed = (
        "Badly formed resources parameter. Expected resources query string parameter in form: "
        "?resources=VCPU:2,MEMORY_MB:1024. Got: "
    )
    if not value.strip():
        raise InvalidQuery(f"{badly_formed}empty string.")
    amounts = {}
    for element in value.split(","):
        if element.count(":") != 1:
            raise InvalidQuery(f"{badly_formed}{element}.")
        name, _, text = element.partition(":")
        amounts[name] = _amount(name, text)
    return amounts


def _amount(name: str, text: str) -> int:
    amount = whole_number(text)
    if amount is None:
        raise InvalidQuery(f"Requested resource {name} expected positive integer amount. Got: {text}.")
    if amount < 1:
        raise InvalidQuery(f"Requested resource {name} requires amount >= 1. Got: {amount}.")
    return amount


def whole_number(text: str) -> int | None:
    """*text* as an integer in Python's syntax; None if it is not one."""
    try:
        return int(text)
    except ValueError:  # also for more digits than Python parses
        return BEYOND if _MANY_DIGITS.fullmatch(text) else None


def parse_traits(values: Sequence[str], agreed: Agreed) -> Terms:
    """The values of one ``required``: names, ``!names`` (1.22), ``in:any,of`` (1.39). Since 1.39 all values apply.

    Raises:
        InvalidQuery: malformed, or newer than these versions.
    """
    clauses: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values if agreed.knows(V.ANY_TRAITS) else values[-1:]:
        if value.startswith("in:") and agreed.knows(V.ANY_TRAITS):
            clauses.append(_any_of(value))
        else:
            required, unwanted = parse_names(value, agreed)
            clauses += [frozenset([name]) for name in required]
            forbidden |= unwanted
    return Terms(tuple(dict.fromkeys(clauses)), frozenset(forbidden))


def parse_names(value: str, agreed: Agreed) -> tuple[list[str], set[str]]:
    """Required and forbidden names of a comma-separated list without ``in:``.

    Raises:
        InvalidQuery: it has ``in:``, an empty name, or a ``!`` that these versions do not support.
    """
    if value.startswith("in:"):
        raise InvalidQuery(
            f"{INVALID} The format '{ANY_FORM}' only supported since microversion {V.ANY_TRAITS}. Got: {value}"
        )
    may_forbid = agreed.knows(V.FORBIDDEN_TRAITS)
    form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if may_forbid else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
    expected = f"{INVALID} Expected 'required' parameter value of the form: {form}. Got"
    names = [name.strip() for name in value.split(",")]
    if any(name in ("", "!") for name in names):
        raise InvalidQuery(f"{expected} an empty trait in: {value}")
    forbidden = {name.removeprefix("!") for name in names if name.startswith("!")}
    if forbidden and not may_forbid:
        raise InvalidQuery(f"{expected}: {value}")
    return [name for name in names if not name.startswith("!")], forbidden


def _any_of(value: str) -> frozenset[str]:
    names = [name.strip() for name in value.removeprefix("in:").split(",")]
    if not all(names):
        raise InvalidQuery(
            f"{INVALID} Expected 'required' parameter value of the form: {ANY_FORM}. Got an empty trait in: {value}"
        )
    if any(name.startswith("!") for name in names):
        raise InvalidQuery(f"{INVALID} The format '{ANY_FORM}' does not support forbidden traits. Got: {value}")
    return frozenset(names)


def parse_aggregates(values: Sequence[str], agreed: Agreed, suffix: str = "") -> Terms:
    """The values of one ``member_of``: ``uuid`` or ``in:any,of``; a ``!`` in front forbids them (1.32).

    Raises:
        InvalidQuery: malformed, repeated before 1.24, or forbidding before 1.32.
    """
    if len(values) > 1 and not agreed.knows(V.REPEATED_MEMBER_OF):
        raise InvalidQuery(f"Multiple member_of{suffix} parameters are not supported")
    clauses: list[frozenset[str]] = []
    forbidden: frozenset[str] = frozenset()
    for value in values:
        names = _uuids(value)
        if not value.startswith("!"):
            clauses.append(names)
        elif not agreed.knows(V.FORBIDDEN_AGGREGATES):
            raise InvalidQuery(
                f"Forbidden member_of{suffix} parameters are not supported in the specified microversion"
            )
        else:
            forbidden |= names
    return Terms(tuple(dict.fromkeys(clauses)), forbidden)


def parse_root_aggregates(values: Sequence[str]) -> Terms:
    """The values of ``root_member_of``, in the syntax of the newest ``member_of``.

    Raises:
        InvalidQuery: malformed.
    """
    names = [(value.startswith("!"), _uuids(value, "root_member_of", "", BAD_VALUE)) for value in values]
    clauses = dict.fromkeys(uuids for is_forbidden, uuids in names if not is_forbidden)
    return Terms(tuple(clauses), frozenset().union(*(uuids for is_forbidden, uuids in names if is_forbidden)))


def _uuids(
    value: str,
    parameter: str = "member_of",
    since: str = " using the valid microversion",
    code: str | None = None,
) -> frozenset[str]:
    bare = value.removeprefix("!")
    if bare.startswith("in:"):
        names = bare.removeprefix("in:").split(",")
    elif "," in bare:
        raise InvalidQuery(
            f"Multiple values for '{parameter}' must be prefixed with the 'in:' or '!in:' keyword{since}. Got: {value}",
            code,
        )
    else:
        names = [bare]
    for name in names:
        if not is_like(name):
            raise InvalidQuery(
                f"{INVALID} Expected '{parameter}' parameter to contain valid UUID(s). Got: {name}", code
            )
    return frozenset(names)


def parse_tree(value: str, *, may_name: bool = False) -> str:
    """The reference to a provider of a tree, as given: a uuid, or ``name:`` and a name if *may_name*.

    Raises:
        InvalidQuery: it is neither.
    """
    return _reference(value, "in_tree", may_name=may_name)


def parse_subtree(value: str, *, may_name: bool = False) -> str:
    """The reference to the top of a subtree, as given: a uuid, or ``name:`` and a name if *may_name*.

    Raises:
        InvalidQuery: it is neither.
    """
    return _reference(value, "in_subtree", BAD_VALUE, may_name=may_name)


def _reference(value: str, parameter: str, code: str | None = None, *, may_name: bool) -> str:
    if may_name and value.startswith(BY_NAME) and value != BY_NAME:
        return value
    uuid = value.strip()
    if not is_like(uuid):
        form = f"a format of uuid, or {BY_NAME}NAME" if may_name else "a format of uuid"
        raise InvalidQuery(f"{INVALID} Expected '{parameter}' parameter to be {form}. Got: {value}", code)
    return uuid


def parse_root_traits(value: str | None, agreed: Agreed) -> Terms:
    """The value of ``root_required``: names and ``!names``.

    Raises:
        InvalidQuery: malformed, or a trait that is both required and forbidden.
    """
    if value is None:
        return Terms()
    required, forbidden = parse_names(value, agreed)
    conflicts = sorted(forbidden.intersection(required))
    if conflicts:
        raise InvalidQuery(
            f"Conflicting required and forbidden traits found in root_required: {', '.join(conflicts)}", BAD_VALUE
        )
    return Terms(tuple(dict.fromkeys(frozenset([name]) for name in required)), frozenset(forbidden))


def require_no_conflict(traits: dict[str, Terms]) -> None:
    """Refuse clauses all of whose traits are forbidden in the same place. The keys are the parameters.

    Raises:
        InvalidQuery: naming parameters and traits.
    """
    conflicts = []
    for key, terms in sorted(traits.items()):
        lost = [name for clause in terms.clauses if clause <= terms.forbidden for name in clause]
        if lost:
            conflicts.append(f"{key}: ({', '.join(sorted(set(lost)))})")
    if conflicts:
        raise InvalidQuery(
            f"Conflicting required and forbidden traits found in the following traits keys: {', '.join(conflicts)}"
        )


# The pairs of a query string, in order, and the schemas of keys and plain values.


INVALID = "Invalid query string parameters:"
DUPLICATE_KEY = "placement.query.duplicate_key"


class Pairs:
    """Keys and values as the client wrote them, decoded; a key may be repeated."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._values: dict[str, list[str]] = {}
        for key, value in pairs:
            self._values.setdefault(key, []).append(value)

    @classmethod
    def of(cls, req: Request) -> Pairs:
        """The pairs of the request's query string.

        Raises:
            InvalidQuery: part of the string is not UTF-8.
        """
        return cls.read(req.query_string)

    @classmethod
    def read(cls, query: str) -> Pairs:
        """The pairs of a query string.

        Raises:
            InvalidQuery: part of the string is not UTF-8.
        """
        parts = [part.partition("=") for part in query.split("&") if part]
        if _is_plain(query):
            return cls([(key, value) for key, _, value in parts])
        try:
            return cls([(_text(key), _text(value)) for key, _, value in parts])
        except UnicodeError as error:
            raise InvalidQuery(f"{INVALID} {error}") from None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def all(self, key: str) -> list[str]:
        """Every value of *key*."""
        return self._values.get(key, [])

    def first(self, key: str) -> str | None:
        """The first value of *key*."""
        return self._values[key][0] if key in self._values else None

    def last(self, key: str) -> str | None:
        """The last value of *key*."""
        return self._values[key][-1] if key in self._values else None

    def require_single(self, keys: Iterable[str]) -> None:
        """Refuse repetition of any of *keys*.

        Raises:
            InvalidQuery: names the first key that is repeated.
        """
        for key in keys:
            if len(self.all(key)) > 1:
                raise InvalidQuery(f"Query parameter '{key}' may be specified only once.", DUPLICATE_KEY)

    def require(self, validator: Validator) -> None:
        """Refuse keys and values that *validator* rejects. Of a repeated key it checks the last value.

        Raises:
            InvalidQuery: with the message of the first fault.
        """
        fault = validator.first_fault({key: values[-1] for key, values in self._values.items()})
        if fault is not None:
            raise InvalidQuery(f"{INVALID} {fault}")


def _is_plain(encoded: str) -> bool:
    """Whether it needs no decoding."""
    return encoded.isascii() and "%" not in encoded and "+" not in encoded


def _text(encoded: str) -> str:
    if _is_plain(encoded):
        return encoded
    # WSGI passes bytes decoded as Latin-1.
    return unquote_to_bytes(encoded.replace("+", " ").encode("latin-1")).decode("utf-8")


# Paging parameters that all paged lists share, and the link from one page to the next.
#
# Source: "Pages", docs/stead-api.md.


PAGE_KEYS: dict[str, tuple[Step, dict[str, str]]] = {
    "limit": (S.OWN_FEATURES, {"type": "string", "pattern": "^[1-9][0-9]*$", "format": ONE_LINE}),
    "marker": (S.OWN_FEATURES, {"type": "string", "format": "uuid"}),
}
"""Each key with its first version and the schema of its value."""


def parse_page(pairs: Pairs) -> Page:
    """The page that *pairs* request; the caller has validated the values.

    Raises:
        InvalidQuery: `limit` or `marker` is repeated.
    """
    pairs.require_single(PAGE_KEYS)
    limit = pairs.last("limit")
    return Page(None if limit is None else whole_number(limit), marker_of(pairs))


def marker_of(pairs: Pairs) -> str | None:
    """The uuid after which the page begins, as it is stored: lists compare it as a text."""
    marker = pairs.last("marker")
    return None if marker is None else normalised_uuid(marker)


def links(req: Request, pairs: Pairs, last: str | None) -> list[dict[str, str]]:
    """The links of a page: one to the next page, which begins after the uuid *last*; empty on the last page."""
    if last is None:
        return []
    asked = [(key, value) for key, value in pairs if key != "marker"]
    href = f"{req.root_path}{req.path}?{urlencode([*asked, ('marker', last)])}"
    return [{"rel": "next", "href": href}]
