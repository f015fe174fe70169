"""Names as requests say them: classes, traits, aggregates, flavors, group names, references to providers.

Each function returns the canonical form of an argument, or raises :class:`InvalidRequest`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from uuid import UUID

from stead.client.errors import InvalidRequest

Names = str | UUID | Iterable[str | UUID]
"""One name, or several."""

Clauses = str | UUID | Iterable[str | UUID | Iterable[str | UUID]]
"""Names that must all be there. A collection among them stands for any one of its names."""

Terms = frozenset[frozenset[str]]
"""Canonical clauses: of each, at least one name."""

BY_NAME = "name:"

_NAME = re.compile(r"[A-Z0-9_]{1,255}")
_FLAVOR = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{0,254}")
_GROUP = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_UUID_DIGITS = re.compile(r"[0-9a-f]{32}")


def resource_class(text: str) -> str:
    """The name of a resource class."""
    return _named(text, "resource class")


def trait(text: str | UUID) -> str:
    """The name of a trait."""
    return _named(str(text), "trait")


def _named(text: str, kind: str) -> str:
    if not _NAME.fullmatch(text):
        raise InvalidRequest(f"{text!r} is no name of a {kind}: use capital letters, digits and underscores")
    return text


def amount(name: str, value: object) -> int:
    """An amount of the resource class *name*."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidRequest(f"the amount of {name} must be an integer of at least 1, not {value!r}")
    return value


def group_name(text: str) -> str:
    """The name of a group, which is the suffix of its parameters; not empty."""
    if not _GROUP.fullmatch(text):
        raise InvalidRequest(f"{text!r} is no name of a group: use 1 to 64 letters, digits, _ or -")
    return text


def flavor(text: str) -> str:
    """The name of a flavor."""
    if not _FLAVOR.fullmatch(text):
        raise InvalidRequest(f"{text!r} is no name of a flavor: use 1 to 255 of A-Z a-z 0-9 _ . : + -")
    return text


def aggregate(value: str | UUID) -> str:
    """The uuid of an aggregate, as spelled: other spellings are other aggregates."""
    if not is_uuid(str(value)):
        raise InvalidRequest(f"{value!r} is no uuid of an aggregate")
    return str(value)


def provider(value: str | UUID | None) -> str | None:
    """A reference to a provider: a uuid, or ``name:`` and a name. Text that is neither is taken as a name."""
    if value is None:
        return None
    text = str(value)
    if is_uuid(text.strip()):
        return text.strip()
    name = text.removeprefix(BY_NAME)
    if not name:
        raise InvalidRequest("a reference to a provider needs a uuid or a name")
    return BY_NAME + name


def is_uuid(text: str) -> bool:
    """Whether the server reads *text* as a uuid: any case, with or without hyphens and braces."""
    digits = text.lower().removeprefix("urn:").removeprefix("uuid:").strip("{}").replace("-", "")
    return _UUID_DIGITS.fullmatch(digits) is not None


def names(value: Names) -> list[str]:
    """One name or several as a list."""
    if isinstance(value, str | UUID):
        return [str(value)]
    if isinstance(value, Mapping):
        raise InvalidRequest(f"expected names, not the mapping {value!r}")
    return [str(name) for name in value]


def clauses(value: Clauses) -> list[list[str]]:
    """Each clause with its names."""
    if isinstance(value, str | UUID):
        return [[str(value)]]
    return [names(clause) for clause in value]


def trait_clauses(value: Clauses, parameter: str) -> Terms:
    """Required traits. A name with ``!`` belongs to the parameter of forbidden traits."""
    return frozenset(_clause([trait(name) for name in clause], parameter) for clause in clauses(value))


def aggregate_clauses(value: Clauses, parameter: str) -> Terms:
    """Aggregates of which a provider is a member."""
    return frozenset(_clause([aggregate(name) for name in clause], parameter) for clause in clauses(value))


def _clause(members: list[str], parameter: str) -> frozenset[str]:
    if not members:
        raise InvalidRequest(f"{parameter}: a choice of no names can never be met")
    return frozenset(members)


def require_possible(required: Terms, forbidden: frozenset[str], parameter: str) -> None:
    """Refuse clauses all names of which are forbidden."""
    for clause in required:
        if clause <= forbidden:
            raise InvalidRequest(f"{parameter}: {', '.join(sorted(clause))} is both required and forbidden")


def shown_clauses(terms: Terms) -> list[str]:
    """The clauses as Python literals, sorted."""
    single = sorted(repr(name) for clause in terms if len(clause) == 1 for name in clause)
    several = sorted(shown_names(clause) for clause in terms if len(clause) > 1)
    return single + several


def shown_names(members: frozenset[str]) -> str:
    """The names as a Python set literal, sorted."""
    return "{" + ", ".join(sorted(map(repr, members))) + "}"
