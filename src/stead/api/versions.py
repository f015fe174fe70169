"""The microversions and Stead's own versions: their names, what each added, and values that depend on them."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import NamedTuple, Self, TypeVar

T = TypeVar("T")


class Step(IntEnum):
    """The minor number of a version; the major is 1. ``meaning`` is its line in the tables of docs/api.md."""

    meaning: str

    def __new__(cls, minor: int, meaning: str) -> Self:
        member = int.__new__(cls, minor)
        member._value_ = minor
        member.meaning = meaning
        return member

    def __str__(self) -> str:
        return f"1.{self.value}"


class Microversion(Step):
    """A microversion of the OpenStack Placement API."""

    INITIAL = 0, "providers, inventories, usages, allocations in list form, allocations of a provider"
    AGGREGATES = 1, "aggregates of a provider; link `aggregates`"
    RESOURCE_CLASSES = 2, "`/resource_classes`"
    LIST_MEMBER_OF = 3, "`member_of` when listing providers"
    LIST_RESOURCES = 4, "`resources` when listing providers"
    DELETE_INVENTORIES = 5, "DELETE of all inventories of a provider"
    TRAITS = 6, "traits; link `traits`"
    ENSURE_RESOURCE_CLASS = 7, "PUT of a resource class creates it if it does not exist, and no longer renames it"
    CONSUMER_OWNERS = 8, "`project_id` and `user_id` are required in PUT of allocations"
    USAGES = 9, "GET `/usages`"
    CANDIDATES = 10, "GET `/allocation_candidates`"
    ALLOCATIONS_LINK = 11, "link `allocations`"
    ALLOCATIONS_BY_PROVIDER = 12, "allocations as an object by provider; those of a consumer show project and user"
    POST_ALLOCATIONS = 13, "POST `/allocations`, for several consumers at once"
    NESTED_PROVIDERS = 14, "`parent_provider_uuid`, `root_provider_uuid`; `in_tree` when listing providers"
    CACHE_HEADERS = 15, "`Last-Modified` and `Cache-Control`"
    LIMIT = 16, "`limit` of candidates"
    CANDIDATE_REQUIRED = 17, "`required` of candidates; traits in their summaries"
    LIST_REQUIRED = 18, "`required` when listing providers"
    AGGREGATE_GENERATION = 19, "PUT of aggregates checks the generation of the provider"
    CREATED_PROVIDER = 20, "POST of a provider returns the provider"
    CANDIDATE_MEMBER_OF = 21, "`member_of` of candidates"
    FORBIDDEN_TRAITS = 22, "`!` in `required`"
    ERROR_CODES = 23, "`code` in errors"
    REPEATED_MEMBER_OF = 24, "`member_of` may be repeated"
    GROUPS = 25, "numbered request groups and `group_policy`"
    RESERVE_ALL = 26, "an inventory may reserve its whole total"
    WHOLE_SUMMARIES = 27, "summaries of candidates show all resource classes of a provider"
    CONSUMER_GENERATION = 28, "writes of allocations check the generation of the consumer; PUT may remove them all"
    NESTED_CANDIDATES = 29, "candidates use several providers of one tree; summaries show the tree"
    RESHAPER = 30, "POST `/reshaper`"
    CANDIDATE_IN_TREE = 31, "`in_tree` of candidates"
    FORBIDDEN_AGGREGATES = 32, "`!` in `member_of`"
    STRING_SUFFIXES = 33, "any suffix names a request group"
    MAPPINGS = 34, "`mappings` in candidates, accepted in writes of allocations"
    ROOT_REQUIRED = 35, "`root_required` of candidates"
    SAME_SUBTREE = 36, "`same_subtree` of candidates; groups without resources"
    MOVING_PROVIDERS = 37, "a provider may change or lose its parent"
    CONSUMER_TYPES = 38, "types of consumers; usages by type"
    ANY_TRAITS = 39, "`in:` in `required`, which may be repeated"


class SteadVersion(Step):
    """A version of Stead's own features, visible only to requests with a `stead` entry."""

    OWN_FEATURES = (
        0,
        "`/openapi.json`; `/allocation_candidates/explain`, `/claims`, `/consumers`, `/changes`; `in_subtree`, `limit` "
        "and `marker` when listing providers; `root_member_of`, `isolate`, `!` in `same_subtree`, `can_split`, "
        "`in_subtree` and `order_by` of candidates",
    )
    PROVIDER_TREES = (
        1,
        "`/provider_trees`; disabled providers; `ETag` and `If-None-Match` there and when listing providers; "
        "`merged` in `/changes`; `name:` in `in_tree` and `in_subtree`; `/headroom`; "
        "`/flavors`, and `flavor` of candidates; `/whatif`; `/advice`",
    )
    HEADROOM_ORDER = (
        2,
        "`headroom` in `order_by` of candidates; `weight` of flavors; `order_by` of the drains of `/whatif` and of "
        "`/advice`; `improve` of `/advice`; `/headroom` without a query; `/mix`; leases: `lease`, `expires_at` and "
        "`on_expiry` of claims and allocations, `expires_before` of `/consumers`, `/leases`; ends in `/changes`",
    )


V = Microversion
S = SteadVersion

OLDEST = min(Microversion)
NEWEST = max(Microversion)
NEWEST_STEAD = max(SteadVersion)


class Agreed(NamedTuple):
    """The versions that apply to one request; ``stead`` is None unless requested."""

    placement: Microversion
    stead: SteadVersion | None = None

    def knows(self, step: Step) -> bool:
        """Whether the features of *step* are available. Stead's own features require a request for them."""
        if isinstance(step, SteadVersion):
            return self.stead is not None and self.stead >= step
        return self.placement >= step


ALL_FEATURES = Agreed(NEWEST, NEWEST_STEAD)


def name_of(step: Step) -> str:
    """*step* for lists of several: Placement's versions as numbers alone, as in ``1.31`` and ``stead 1.0``."""
    return f"stead {step}" if isinstance(step, SteadVersion) else str(step)


def extent(versions: type[Step]) -> dict[str, str]:
    """The newest and the oldest of *versions*, for version documents and refusals."""
    newest, oldest = _ends(versions)
    return {"max_version": newest, "min_version": oldest}


@cache
def header_of(agreed: Agreed) -> str:
    """*agreed* as the value of a header."""
    placement = f"placement {agreed.placement}"
    return placement if agreed.stead is None else f"{placement}, stead {agreed.stead}"


@cache  # iterating over an enumeration takes longer than the rest of the root document
def _ends(versions: type[Step]) -> tuple[str, str]:
    return str(max(versions)), str(min(versions))


class Versioned(dict[Microversion, T]):
    """One value per span of microversions, by the first of the span."""

    def at(self, version: Microversion) -> T:
        """The value of the newest span not newer than *version*.

        Raises:
            ValueError: every span is newer.
        """
        return self[max(first for first in self if first <= version)]
