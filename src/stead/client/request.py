"""What a scheduler asks for, as values: a request made of groups.

A value is checked when it is made. What the API cannot say raises :class:`InvalidRequest` before a request is sent.
``str(request)`` is the query of GET ``/allocation_candidates``, and :meth:`Request.parse` reads one. Two values are
equal if their queries are.

Source: "Query grammar" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, Union
from urllib.parse import quote, unquote_plus
from uuid import UUID

from stead.client import BY_NAME
from stead.client.errors import InvalidRequest

MAX_WEIGHT = 1_000_000
"""Greatest absolute weight of a resource class in an order."""

_ORDERS = frozenset({"pack", "spread", "random", "headroom"})
_WEIGHT = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})", re.ASCII)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Group:
    """What one provider must give. The group without a name may take each class from another provider of one tree.

    Attributes:
        name: of the group, the suffix of its parameters; empty for the group without a name.
        amounts: pairs of a resource class and an amount in units of the class.
        required: traits that the provider has. Each clause is met by one of its traits.
        forbidden: traits that it does not have.
        member_of: aggregates that it is in. Each clause is met by one of its aggregates.
        not_member_of: aggregates that it is not in.
        in_tree: a provider, by uuid or ``name:NAME``, whose tree must serve the group.
        in_subtree: a provider that must serve the group itself or have the one that does below it.
        split: classes whose amount several providers may give together; only in the group without a name.
    """

    name: str
    amounts: tuple[tuple[str, int], ...]
    required: Terms
    forbidden: frozenset[str]
    member_of: Terms
    not_member_of: frozenset[str]
    in_tree: str | None
    in_subtree: str | None
    split: frozenset[str]

    def __init__(
        self,
        name: str = "",
        /,
        resources: Mapping[str, int] | None = None,
        *,
        required: Clauses = (),
        forbidden: Names = (),
        member_of: Clauses = (),
        not_member_of: Names = (),
        in_tree: str | UUID | None = None,
        in_subtree: str | UUID | None = None,
        split: bool | Iterable[str] = False,
        **amounts: int,
    ) -> None:
        """A group, for example ``Group("gpu", PGPU=2, required={"CUSTOM_GPU_A100"})``.

        Args:
            name: empty for the group without a name.
            resources: amounts by resource class; *amounts* says the same with keywords.
            required: traits. A collection among them stands for any one of its traits: ``["A", {"B", "C"}]``.
            member_of: uuids of aggregates, in the same form.
            in_tree, in_subtree: the uuid or the name of a provider.
            split: True for all classes of the group, or some of them.

        Raises:
            InvalidRequest: the API cannot say this.
        """
        all_amounts = {**(resources or {}), **amounts}
        values = {
            "name": group_name(name) if name else "",
            "amounts": tuple((resource_class(key), amount(key, value)) for key, value in all_amounts.items()),
            "required": trait_clauses(required, "required"),
            "forbidden": frozenset(map(trait, names(forbidden))),
            "member_of": aggregate_clauses(member_of, "member_of"),
            "not_member_of": frozenset(map(aggregate, names(not_member_of))),
            "in_tree": provider(in_tree),
            "in_subtree": provider(in_subtree),
            "split": _split(name, frozenset(all_amounts), split),
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)
        require_possible(self.required, self.forbidden, "required")
        if not self.pairs():
            raise InvalidRequest(f"group {name!r} requests nothing")

    @property
    def resources(self) -> dict[str, int]:
        """Amounts by resource class."""
        return dict(self.amounts)

    def times(self, number: int) -> tuple[Group, ...]:
        """The group *number* times, with the names ``gpu0``, ``gpu1``, … if its own is ``gpu``.

        For devices that are providers of their own: ``Request(*Group("gpu", PGPU=1).times(4), near=True)``.

        Raises:
            InvalidRequest: the group has no name, or *number* is negative.
        """
        if not self.name or number < 0:
            raise InvalidRequest("only a group with a name can be repeated, and not a negative number of times")
        groups = tuple(copy(self) for _ in range(number))
        for place, group in enumerate(groups):
            object.__setattr__(group, "name", group_name(f"{self.name}{place}"))
        return groups

    def pairs(self) -> list[tuple[str, str]]:
        """The parameters of the group with their values, not encoded."""
        pairs = []
        if self.amounts:
            pairs.append(("resources", ",".join(f"{name}:{amount}" for name, amount in self.amounts)))
        pairs += _trait_pairs("required", self.required, self.forbidden)
        pairs += _aggregate_pairs("member_of", self.member_of, self.not_member_of)
        if self.in_tree is not None:
            pairs.append(("in_tree", self.in_tree))
        if self.in_subtree is not None:
            pairs.append(("in_subtree", self.in_subtree))
        return [(key + self.name, value) for key, value in pairs]

    def __repr__(self) -> str:
        parts = [repr(self.name)] if self.name else []
        plain = all(name.isidentifier() for name, _ in self.amounts)
        if self.amounts and plain:
            parts += [f"{name}={amount}" for name, amount in self.amounts]
        elif self.amounts:
            parts.append(f"resources={self.resources!r}")
        parts += _shown_terms(self, "required", "forbidden", "member_of", "not_member_of")
        parts += [f"{key}={getattr(self, key)!r}" for key in ("in_tree", "in_subtree") if getattr(self, key)]
        if self.split:
            parts.append(f"split={shown_names(self.split)}")
        return f"Group({', '.join(parts)})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Request:
    """Groups that one tree of providers serves together, for one consumer.

    Attributes:
        groups: in the order that was given.
        flavor: the name of a flavor, whose groups are requested; None for none.
        near: sets of group names. One of the providers of each set is above all others of the set, or equal to them. A
            name with ``!`` in front is a group that must stay out of that subtree.
        isolate: True if no two groups with a name may have the same provider. Or the names of groups that share theirs
            with no other group.
        root_required, root_forbidden, root_member_of, root_not_member_of: traits and aggregates of the root.
        order: which candidates come first, as the value of ``order_by``; None for any.
        limit: maximum number of candidates; None for all. Claims ignore it.
    """

    groups: tuple[Group, ...]
    flavor: str | None
    near: tuple[frozenset[str], ...]
    isolate: bool | frozenset[str]
    root_required: frozenset[str]
    root_forbidden: frozenset[str]
    root_member_of: Terms
    root_not_member_of: frozenset[str]
    order: str | None
    limit: int | None

    def __init__(
        self,
        *groups: Group,
        flavor: str | None = None,
        near: bool | Iterable[str] | Iterable[Iterable[str]] = (),
        isolate: bool | Iterable[str] = False,
        root_required: Names = (),
        root_forbidden: Names = (),
        root_member_of: Clauses = (),
        root_not_member_of: Names = (),
        order: str | Mapping[str, str | float] | None = None,
        limit: int | None = None,
    ) -> None:
        """A request, for example ``Request(Group(VCPU=2), Group("nic", VF=1), order="pack")``.

        ``Request(flavor="m1.large", order="pack")`` requests what :meth:`Site.put_flavor` stored. Only terms that
        restrict it can stand beside it: those of the root, and a group without a name and without amounts.

        Args:
            flavor: the name of a flavor.
            near: names of groups, or several collections of them; True for all groups with a name.
            isolate: True, or names of groups.
            order: ``pack``, ``spread``, ``random``, ``headroom``, or a mapping of resource classes to ``asc``, ``desc``
                or weights.

        Raises:
            InvalidRequest: the API cannot say this.
        """
        values = {
            "groups": groups,
            "flavor": None if flavor is None else flavor_name(flavor),
            "near": _near(_named_groups(groups) if near is True else near or ()),
            "isolate": isolate if isinstance(isolate, bool) else frozenset(map(group_name, _several(isolate))),
            "root_required": frozenset(map(trait, names(root_required))),
            "root_forbidden": frozenset(map(trait, names(root_forbidden))),
            "root_member_of": aggregate_clauses(root_member_of, "root_member_of"),
            "root_not_member_of": frozenset(map(aggregate, names(root_not_member_of))),
            "order": order_by(order),
            "limit": _limit(limit),
        }
        for field, value in values.items():
            # An empty set isolates nothing, so it must equal False.
            object.__setattr__(self, field, value or False if field == "isolate" else value)
        _require_sound(self)

    @classmethod
    def parse(cls, query: str) -> Request:
        """The request that a query of GET ``/allocation_candidates`` stands for.

        Raises:
            InvalidRequest: it is malformed, or has a parameter that this library does not have.
        """
        groups, keywords = parse(query)
        return cls(*(Group(*group.positional, **group.keywords) for group in groups), **keywords)

    def pairs(self, limit: int | None = None) -> list[tuple[str, str]]:
        """All parameters with their values, not encoded; *limit* replaces that of the request."""
        pairs = [] if self.flavor is None else [("flavor", self.flavor)]
        pairs += [pair for group in self.groups for pair in group.pairs()]
        split = frozenset[str]().union(*(group.split for group in self.groups))
        if split:
            pairs.append(("can_split", ",".join(sorted(split))))
        pairs += [("same_subtree", ",".join(sorted(names))) for names in self.near]
        if isinstance(self.isolate, frozenset):
            pairs.append(("isolate", ",".join(sorted(self.isolate))))
        elif self.isolate:
            pairs.append(("group_policy", "isolate"))
        elif sum(bool(group.name) for group in self.groups) > 1:
            pairs.append(("group_policy", "none"))  # what OpenStack Placement requires and Stead takes for granted
        roots = frozenset(frozenset([name]) for name in self.root_required)
        pairs += _trait_pairs("root_required", roots, self.root_forbidden)
        pairs += _aggregate_pairs("root_member_of", self.root_member_of, self.root_not_member_of)
        if self.order is not None:
            pairs.append(("order_by", self.order))
        limit = self.limit if limit is None else _limit(limit)
        if limit is not None:
            pairs.append(("limit", str(limit)))
        return pairs

    def query(self, limit: int | None = None) -> str:
        """The query string, percent-encoded; *limit* replaces that of the request."""
        return encoded(self.pairs(limit))

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self) -> str:
        parts = [repr(group) for group in self.groups]
        if self.flavor is not None:
            parts.append(f"flavor={self.flavor!r}")
        if self.near:
            parts.append(f"near=[{', '.join(map(shown_names, self.near))}]")
        if isinstance(self.isolate, frozenset):
            parts.append(f"isolate={shown_names(self.isolate)}")
        elif self.isolate:
            parts.append("isolate=True")
        parts += _shown_terms(self, "root_required", "root_forbidden", "root_member_of", "root_not_member_of")
        parts += [f"{key}={getattr(self, key)!r}" for key in ("order", "limit") if getattr(self, key) is not None]
        return f"Request({', '.join(parts)})"


RequestLike: TypeAlias = Union[Request, Group, Mapping[str, int], str]  # noqa: UP007  # `|` would not show the names
"""What methods take as a request: also a group alone, amounts by resource class, or the text of a query."""


def as_request(asked: RequestLike) -> Request | str:
    """*asked* as a request, or as the text that it is.

    Raises:
        InvalidRequest: it is neither.
    """
    if isinstance(asked, Request):
        return asked
    if isinstance(asked, str):
        if asked and "=" not in asked:
            raise InvalidRequest(
                f"{asked!r} is not a query such as resources=VCPU:2. A flavor is requested by Request(flavor={asked!r})"
            )
        return asked
    if isinstance(asked, Group):
        return Request(asked)
    if isinstance(asked, Mapping):
        return Request(Group(resources=asked))
    raise InvalidRequest(f"expected a Request, a Group, amounts by class, or the text of a query, not {asked!r}")


@lru_cache(maxsize=256)
def _text(request: Request) -> str:
    """The query string of a request that a program claims again and again. Requests that are equal have the same."""
    return request.query()


def encoded(pairs: Iterable[tuple[str, str]]) -> str:
    """A query string of *pairs*; the signs of the grammar stay readable."""
    return "&".join(f"{quote(key, safe='')}={quote(value, safe=':,!')}" for key, value in pairs)


def _trait_pairs(key: str, required: Terms, forbidden: frozenset[str]) -> list[tuple[str, str]]:
    single = sorted(name for clause in required if len(clause) == 1 for name in clause)
    listed = [*single, *(f"!{name}" for name in sorted(forbidden))]
    several = sorted(",".join(sorted(clause)) for clause in required if len(clause) > 1)
    return [*([(key, ",".join(listed))] if listed else []), *((key, f"in:{names}") for names in several)]


def _aggregate_pairs(key: str, member_of: Terms, not_member_of: frozenset[str]) -> list[tuple[str, str]]:
    pairs = sorted(
        (key, f"in:{','.join(sorted(clause))}" if len(clause) > 1 else next(iter(clause))) for clause in member_of
    )
    if not_member_of:
        pairs.append((key, f"!in:{','.join(sorted(not_member_of))}"))
    return pairs


def _shown_terms(value: Group | Request, *fields: str) -> list[str]:
    shown = []
    for field in fields:
        content = getattr(value, field)
        if content and isinstance(next(iter(content)), frozenset):
            shown.append(f"{field}=[{', '.join(shown_clauses(content))}]")
        elif content:
            shown.append(f"{field}={shown_names(content)}")
    return shown


def _split(name: str, classes: frozenset[str], split: bool | Iterable[str]) -> frozenset[str]:
    if split is False:
        return frozenset()
    if name:
        raise InvalidRequest(
            f"group {name!r}: only the group without a name can be split over several providers; "
            f"request a group for each provider, as {name}0 and {name}1, which Group.times makes"
        )
    if split is True:
        return classes
    requested = frozenset(_several(split))
    if unknown := sorted(requested - classes):
        raise InvalidRequest(f"split names classes that the group does not request: {', '.join(unknown)}")
    return requested


def _several(value: Iterable[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _near(value: Iterable[str] | Iterable[Iterable[str]]) -> tuple[frozenset[str], ...]:
    items = [value] if isinstance(value, str) else list(value)
    if not items:
        return ()
    if all(isinstance(item, str) for item in items):
        return (_subtree(str(item) for item in items),)
    return tuple(_subtree(_several(item)) for item in items)


def _named_groups(groups: Iterable[Group]) -> list[str]:
    names = [group.name for group in groups if group.name]
    if not names:
        raise InvalidRequest('near=True needs groups with a name, as Group("gpu", PGPU=1)')
    return names


def _subtree(members: Iterable[str]) -> frozenset[str]:
    members = frozenset(members)
    for member in members:
        group_name(member.removeprefix("!"))
    together = {member for member in members if not member.startswith("!")}
    if not together:
        raise InvalidRequest("near needs at least one group without '!'")
    if both := sorted(member for member in together if f"!{member}" in members):
        raise InvalidRequest(f"near has group {both[0]} both with and without '!'")
    return members


def order_by(value: str | Mapping[str, str | float] | None) -> str | None:
    """The value of ``order_by`` that states this order; None for none.

    Raises:
        InvalidRequest: it is none.
    """
    if isinstance(value, Mapping):
        value = ",".join(f"{name}:{_weight(weight)}" for name, weight in value.items())
    if value is None or value in _ORDERS:
        return value
    elements = [element.strip().partition(":") for element in value.split(",")]
    names, weights = [name for name, _, _ in elements], [weight for _, _, weight in elements]
    if not all(weight in ("asc", "desc") for weight in weights) and not all(map(_is_weight, weights)):
        raise InvalidRequest(
            f"{value!r} is no order: use pack, spread, random, headroom, "
            f"or classes with asc, desc or weights to {MAX_WEIGHT}"
        )
    if len({resource_class(name) for name in names}) < len(names):
        raise InvalidRequest(f"order {value!r} names a class twice")
    return value


def _weight(weight: str | float) -> str:
    # `repr` can write an exponent, which the grammar of `order_by` does not have.
    return weight if isinstance(weight, str) else format(Decimal(repr(weight)), "f")


def _is_weight(text: str) -> bool:
    return _WEIGHT.fullmatch(text) is not None and 0 < abs(float(text)) <= MAX_WEIGHT


def _limit(value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or value < 1):
        raise InvalidRequest(f"limit must be at least 1, not {value!r}")
    return value


def _require_sound(request: Request) -> None:
    """Refuse groups that make no sense together."""
    names = [group.name for group in request.groups]
    if len(set(names)) < len(names):
        twice = min(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"two groups have the name {twice!r}")
    if request.flavor is not None:
        _require_restricting(request)
    elif not any(group.amounts for group in request.groups):
        raise InvalidRequest("a request needs resources in at least one group")
    near = {member.removeprefix("!") for members in request.near for member in members}
    isolated = request.isolate if isinstance(request.isolate, frozenset) else frozenset()
    for parameter, members in (("near", near), ("isolate", isolated)):
        if unknown := sorted(members.difference(names)):
            raise InvalidRequest(f"{parameter} names a group that does not exist: {unknown[0]!r}")
    for group in request.groups:
        if not group.amounts and group.name not in near and request.flavor is None:
            raise InvalidRequest(f"group {group.name!r} requests no resources, so near must name it")
    roots = frozenset(frozenset([name]) for name in request.root_required)
    require_possible(roots, request.root_forbidden, "root_required")


def _require_restricting(request: Request) -> None:
    """Refuse what describes the request itself beside a flavor, which does."""
    if request.near or request.isolate:
        raise InvalidRequest("flavor cannot be used together with near or isolate")
    if any(group.name or group.amounts for group in request.groups):
        raise InvalidRequest("beside a flavor, only a group without a name and without amounts can be given")


# From a query of GET ``/allocation_candidates`` to the arguments of the values in ``stead.client.request``.


_GROUP_KEY = re.compile(r"(resources|required|member_of|in_tree|in_subtree)([a-zA-Z0-9_-]{1,64})?", re.ASCII)
_LIMIT = re.compile(r"[1-9][0-9]*")

_ONCE = ("root_required", "can_split", "order_by", "flavor")
_OF_REQUEST = frozenset({"limit", "group_policy", "same_subtree", "root_member_of", "isolate", *_ONCE})


class Arguments(NamedTuple):
    """Positional and keyword arguments."""

    positional: tuple[Any, ...]
    keywords: dict[str, Any]


def parse(query: str) -> tuple[list[Arguments], dict[str, Any]]:
    """The arguments of each group, and the keyword arguments of the request.

    Raises:
        InvalidRequest: it is malformed.
    """
    values: dict[str, list[str]] = {}
    groups: dict[str, dict[str, list[str]]] = {}
    for key, value in _pairs(query):
        if key in _OF_REQUEST:
            values.setdefault(key, []).append(value)
        elif match := _GROUP_KEY.fullmatch(key):
            groups.setdefault(match[2] or "", {}).setdefault(match[1], []).append(value)
        else:
            raise InvalidRequest(f"unknown parameter {key!r}")
    for key in _ONCE:
        if len(values.get(key, [])) > 1:
            raise InvalidRequest(f"{key} may be given only once")
    if "flavor" in values and "group_policy" in values:
        raise InvalidRequest("flavor and group_policy cannot be used together")
    split = [name.strip() for value in values.get("can_split", []) for name in value.split(",")]
    if split and "" not in groups:
        raise InvalidRequest("can_split needs the group without a name")
    return [_group(name, parameters, split) for name, parameters in groups.items()], {
        "flavor": next(iter(values.get("flavor", [])), None),
        "near": [_suffixes(value) for value in values.get("same_subtree", [])],
        "isolate": _isolate(values),
        "order": next(iter(values.get("order_by", [])), None),
        "limit": _parsed_limit(values.get("limit", [])),
        **_terms("root_required", values.get("root_required", [])),
        **_terms("root_member_of", values.get("root_member_of", [])),
    }


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        parts = [part.partition("=") for part in query.removeprefix("?").split("&") if part]
        return [(_decoded(key), _decoded(value)) for key, _, value in parts]
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the query is not UTF-8: {error}") from None


def _decoded(text: str) -> str:
    return unquote_plus(text, errors="strict")


def _group(name: str, parameters: dict[str, list[str]], split: list[str]) -> Arguments:
    amounts = _amounts(parameters["resources"]) if "resources" in parameters else {}
    keywords = {
        "in_tree": _reference(parameters.get("in_tree", [])),
        "in_subtree": _reference(parameters.get("in_subtree", [])),
        "split": split if split and not name else False,
        **_terms("required", parameters.get("required", [])),
        **_terms("member_of", parameters.get("member_of", [])),
    }
    return Arguments((name, amounts), keywords)


def _amounts(values: list[str]) -> dict[str, int]:
    """The amounts of the last value; the others are checked only, as the server does."""
    amounts: dict[str, int] = {}
    for value in values:
        amounts = {}
        for element in value.split(","):
            name, colon, number = element.partition(":")
            try:
                amounts[resource_class(name)] = amount(name, int(number))
            except ValueError as error:
                raise InvalidRequest(f"expected CLASS:AMOUNT, not {element!r}") from error
            if not colon:
                raise InvalidRequest(f"expected CLASS:AMOUNT, not {element!r}")
    return amounts


def _terms(key: str, values: list[str]) -> dict[str, Any]:
    """The arguments for required and forbidden names that *values* of the parameter *key* stand for."""
    of_aggregates = key.endswith("member_of")
    required: list[list[str]] = []
    forbidden: list[str] = []
    for value in values:
        if of_aggregates:
            names = _aggregates(value)
            if value.startswith("!"):
                forbidden += names
            else:
                required.append(names)
        elif value.startswith("in:") and not key.startswith("root_"):
            required.append([name.strip() for name in value.removeprefix("in:").split(",")])
        else:
            names = [name.strip() for name in value.split(",")]
            required += [[name] for name in names if not name.startswith("!")]
            forbidden += [trait(name.removeprefix("!")) for name in names if name.startswith("!")]
    if key == "root_required":
        return {"root_required": [name for names in required for name in names], "root_forbidden": forbidden}
    negative = {"required": "forbidden", "member_of": "not_member_of", "root_member_of": "root_not_member_of"}[key]
    return {key: required, negative: forbidden}


def _aggregates(value: str) -> list[str]:
    bare = value.removeprefix("!")
    if bare.startswith("in:"):
        return bare.removeprefix("in:").split(",")
    return [bare]  # one with a comma in it is no uuid


def _reference(values: list[str]) -> str | None:
    """The last value; all of them must be a uuid, or ``name:`` and a name."""
    for value in values:
        if not value.startswith(BY_NAME) and not is_uuid(value.strip()):
            raise InvalidRequest(f"expected a uuid or name:NAME, not {value!r}")
    return values[-1] if values else None


def _suffixes(value: str) -> list[str]:
    return [suffix.strip() for suffix in value.split(",")]


def _isolate(values: dict[str, list[str]]) -> bool | list[str]:
    policies = values.get("group_policy", [])
    for policy in policies:
        if policy not in ("none", "isolate"):
            raise InvalidRequest(f"group_policy is none or isolate, not {policy!r}")
    if "isolate" not in values:
        return policies[:1] == ["isolate"]
    if policies:
        raise InvalidRequest("isolate and group_policy cannot be used together")
    return [suffix for value in values["isolate"] for suffix in _suffixes(value)]


def _parsed_limit(values: list[str]) -> int | None:
    """The first value, as the server counts it."""
    for value in values:
        if not _LIMIT.fullmatch(value):
            raise InvalidRequest(f"limit must be an integer of at least 1, not {value!r}")
    return int(values[0]) if values else None


# Names as requests say them: classes, traits, aggregates, flavors, group names, references to providers.
#
# Each function returns the canonical form of an argument, or raises :class:`InvalidRequest`.


Names = str | UUID | Iterable[str | UUID]
"""One name, or several."""

Clauses = str | UUID | Iterable[str | UUID | Iterable[str | UUID]]
"""Names that must all be there. A collection among them stands for any one of its names."""

Terms = frozenset[frozenset[str]]
"""Canonical clauses: of each, at least one name."""

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


def flavor_name(text: str) -> str:
    """The name of a flavor."""
    if not _FLAVOR.fullmatch(text):
        raise InvalidRequest(f"{text!r} is no name of a flavor: use 1 to 255 of A-Z a-z 0-9 _ . : + -")
    return text


def aggregate(value: str | UUID) -> str:
    """The uuid of an aggregate, as spelled: other spellings are other aggregates."""
    if not is_uuid(str(value)):
        raise InvalidRequest(
            f"{str(value)!r} is no uuid of an aggregate; stead.rack({str(value)!r}) makes one of a name"
        )
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
