"""Request groups: built from the pairs in order, then checked against each other.

Source: "Group values" and "Cross checks" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from stead.api.query.values import (
    BAD_VALUE,
    parse_aggregates,
    parse_resources,
    parse_subtree,
    parse_traits,
    parse_tree,
    require_no_conflict,
)
from stead.api.versions import V
from stead.domain.errors import InvalidQuery
from stead.domain.request import UNSUFFIXED, RequestGroup, Terms

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Sequence

    from stead.api.query.pairs import Pairs
    from stead.api.versions import Agreed

MISSING_VALUE = "placement.query.missing_value"

ANYTHING = Terms()


@dataclass(slots=True)
class _Draft:
    """A group under construction."""

    resources: dict[str, int] = field(default_factory=dict)
    traits: Terms = ANYTHING
    aggregates: Terms = ANYTHING
    in_tree: str | None = None
    in_subtree: str | None = None


def parse_groups(
    pairs: Pairs, agreed: Agreed, group_key: re.Pattern[str], *, may_name: bool = False
) -> tuple[RequestGroup, ...]:
    """The groups, in the order in which *pairs* first name them.

    Each pair is parsed at its position, so that the first faulty pair decides the error. Repeated values of one key are
    parsed together at the position of the first.

    Args:
        may_name: `in_tree` and `in_subtree` may refer to a provider by its name.

    Raises:
        InvalidQuery: a malformed value.
    """
    drafts: dict[str, _Draft] = {}
    seen: set[str] = set()
    for key, value in pairs:
        match = group_key.match(key)
        if match is None:
            continue
        word, suffix = match[1], match[2] or ""
        draft = drafts.setdefault(suffix, _Draft())
        if word == "resources":
            draft.resources = parse_resources(value)
        elif word == "in_tree":
            draft.in_tree = parse_tree(value, may_name=may_name)
        elif word == "in_subtree":
            draft.in_subtree = parse_subtree(value, may_name=may_name)
        elif key not in seen:
            _parse_terms(draft, word, suffix, pairs.all(key), agreed)
        seen.add(key)
    return tuple(
        RequestGroup(suffix, draft.resources, draft.traits, draft.aggregates, draft.in_tree, draft.in_subtree)
        for suffix, draft in drafts.items()
    )


def _parse_terms(draft: _Draft, word: str, suffix: str, values: Sequence[str], agreed: Agreed) -> None:
    if word == "required":
        draft.traits = parse_traits(values, agreed)
    else:
        draft.aggregates = parse_aggregates(values, agreed, suffix)


def require_sound_groups(
    groups: Sequence[RequestGroup],
    agreed: Agreed,
    same_subtree: Collection[frozenset[str]],
    isolated: frozenset[str] = frozenset(),
) -> None:
    """Refuse invalid groups and invalid combinations of groups.

    Args:
        same_subtree: the suffixes in each value of ``same_subtree``.
        isolated: the suffixes in all values of ``isolate``.

    Raises:
        InvalidQuery: the first fault.
    """
    if not agreed.knows(V.SAME_SUBTREE):
        _require_resources_everywhere(groups)
    else:
        named = frozenset().union(*same_subtree)
        _require_resources_somewhere(groups, named)
        _require_known(groups, named, "same_subtree")
        _require_known(groups, isolated, "isolate")
    require_no_conflict({f"required{group.suffix}": group.traits for group in groups})


def _require_resources_everywhere(groups: Sequence[RequestGroup]) -> None:
    """The rules before microversion 1.36, when every group needed resources."""
    lacking = [group for group in groups if not group.resources]
    traits = [f"required{group.suffix}" for group in lacking if group.traits.clauses]
    if traits:
        raise InvalidQuery(
            "All traits parameters must be associated with resources.  "
            f"Found the following orphaned traits keys: {', '.join(traits)}"
        )
    aggregates = [f"member_of{group.suffix}" for group in lacking if group.aggregates]
    if aggregates:
        raise InvalidQuery(
            "All member_of parameters must be associated with resources. "
            f"Found the following orphaned member_of keys: {', '.join(aggregates)}"
        )
    if lacking:
        raise InvalidQuery("All request groups must specify resources.")
    if not groups:
        raise InvalidQuery("At least one request group (`resources` or `resources{$S}`) is required.")


def _require_resources_somewhere(groups: Sequence[RequestGroup], named: frozenset[str]) -> None:
    if not any(group.resources for group in groups):
        raise InvalidQuery("There must be at least one resources or resources[$S] parameter.", MISSING_VALUE)
    bad = [group.suffix for group in groups if not group.resources and group.suffix not in named]
    if bad:
        raise InvalidQuery(
            "Resourceless suffixed group request should be specified in `same_subtree` query param: "
            f"bad group(s) - {bad}.",
            BAD_VALUE,
        )


def _require_known(groups: Sequence[RequestGroup], named: frozenset[str], parameter: str) -> None:
    suffixes = [group.suffix for group in groups]
    unknown = sorted(named.difference(suffixes))
    if unknown:
        raise InvalidQuery(
            f"Real suffixes should be specified in `{parameter}`: {unknown} not found in {suffixes}.", BAD_VALUE
        )


def with_own_meaning(groups: Sequence[RequestGroup], can_split: frozenset[str]) -> tuple[RequestGroup, ...]:
    """The groups with the meaning that requests for Stead's own features give them.

    Raises:
        InvalidQuery: *can_split* names a class that the unsuffixed group does not request.
    """
    asked = {name for group in groups if group.suffix == UNSUFFIXED for name in group.resources}
    unknown = sorted(can_split - asked)
    if unknown:
        raise InvalidQuery(
            f"can_split names resource classes that the unsuffixed group does not request: {unknown}", BAD_VALUE
        )
    return tuple(
        replace(group, can_split=can_split if group.suffix == UNSUFFIXED else group.can_split, like_any_other=True)
        for group in groups
    )
