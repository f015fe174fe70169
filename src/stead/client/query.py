"""From a query of GET ``/allocation_candidates`` to the arguments of the values in ``stead.client.request``."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote_plus

from stead.client import terms
from stead.client.errors import InvalidRequest

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
        "limit": _limit(values.get("limit", [])),
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
                amounts[terms.resource_class(name)] = terms.amount(name, int(number))
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
            forbidden += [terms.trait(name.removeprefix("!")) for name in names if name.startswith("!")]
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
        if not value.startswith(terms.BY_NAME) and not terms.is_uuid(value.strip()):
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


def _limit(values: list[str]) -> int | None:
    """The first value, as the server counts it."""
    for value in values:
        if not _LIMIT.fullmatch(value):
            raise InvalidRequest(f"limit must be an integer of at least 1, not {value!r}")
    return int(values[0]) if values else None
