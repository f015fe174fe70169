"""The differences that are known and meant: each has a name, and a section of that name in docs/differences.md.

A row says exactly when answers may differ, and in what. Whatever is wider than its row is news.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.system.api.client import Answer
from tests.system.differential.asking import Request
from tests.system.differential.comparison import Exchange, canonical, compare, detail
from tests.system.differential.pair import Pair
from tests.system.differential.wordings import wording_of
from tests.system.differential.words import SHARES

CANDIDATES = "GET /allocation_candidates"


@dataclass(frozen=True)
class Known:
    """A difference in nothing but these facets, where *applies* says so; no facets: in anything."""

    name: str
    facets: frozenset[str]
    applies: Callable[[Exchange, Pair], bool]


def names_of(exchange: Exchange, pair: Pair) -> tuple[str, ...]:
    """The known differences that together are the whole difference of *exchange*; none if some of it is news."""
    names, left = [], exchange.facets
    for row in KNOWN:
        if left and (not row.facets or left & row.facets) and row.applies(exchange, pair):
            names.append(row.name)
            left = left - row.facets if row.facets else frozenset()
    return () if left else tuple(names)


def leaves_consumers_behind(exchange: Exchange) -> bool:
    """May the released service have kept rows of consumers that hold nothing?"""
    released = exchange.released
    return released.status < 300 or (released.status == 400 and b"does not exist" in released.body)


def vary_is_missing(exchange: Exchange, _pair: Pair) -> bool:
    return exchange.released.status >= 400 and exchange.released.header("vary") is None


def head_names_no_type(exchange: Exchange, _pair: Pair) -> bool:
    return exchange.request.method == "HEAD"


def refusal_of_a_stranger(exchange: Exchange, _pair: Pair) -> bool:
    return exchange.stead.status == exchange.released.status == 401


def rename_tells_no_time(exchange: Exchange, _pair: Pair) -> bool:
    return exchange.request.route == "PUT /resource_providers/*" and exchange.released.header("last-modified") is None


def name_is_empty(exchange: Exchange, _pair: Pair) -> bool:
    body = exchange.request.body
    return exchange.request.route == "POST /resource_providers" and isinstance(body, dict) and body.get("name") == ""


def numbers_are_echoed(exchange: Exchange, _pair: Pair) -> bool:
    """2 was sent as the ratio; it comes back as 2, here as 2.0, as every GET of either shows it."""
    written = exchange.request.method in ("PUT", "POST") and "/inventories" in exchange.request.path
    return written and exchange.stead.json == exchange.released.json


def classes_given_up_are_counted(exchange: Exchange, _pair: Pair) -> bool:
    """A refusal names all classes where nothing of the request is there, else the first that is not."""
    if exchange.request.route not in ("POST /allocations", "POST /reshaper") or exchange.stead.status != 409:
        return False
    body = exchange.request.body
    claims = body.get("allocations", {}) if exchange.request.route == "POST /reshaper" else body
    named = re.compile("(.*)Inventory for '.*' on resource provider '.*' invalid.", re.DOTALL)
    ours, theirs = (named.fullmatch(detail(exchange.request, answer)) for answer in (exchange.stead, exchange.released))
    if ours is None or theirs is None or ours[1] != theirs[1]:
        return False
    return any(claim["allocations"] == {} for claim in claims.values())


def wording_differs(exchange: Exchange, _pair: Pair) -> bool:
    ours, theirs = (detail(exchange.request, answer) for answer in (exchange.stead, exchange.released))
    return wording_of(exchange.request.route, ours, theirs) is not None


def failed(exchange: Exchange) -> bool:
    return exchange.released.status == 500


def inventory_key_is_no_class(exchange: Exchange, _pair: Pair) -> bool:
    routes = ("PUT /resource_providers/*/inventories", "POST /reshaper")
    if exchange.request.route not in routes or exchange.stead.status != 400:
        return False
    return any(not re.fullmatch("[A-Z0-9_]+", key) for key in _inventory_keys(exchange.request.body))


def _inventory_keys(body: Any) -> list[str]:
    if not isinstance(body, dict) or not isinstance(body.get("inventories"), dict):
        return []
    within = [key for inner in body["inventories"].values() for key in _inventory_keys(inner)]
    return within or list(body["inventories"])


def limit_begins_with_a_word(exchange: Exchange, _pair: Pair) -> bool:
    limits = exchange.request.values("limit")
    return failed(exchange) and len(limits) > 1 and not limits[0].isdecimal() and exchange.stead.status == 400


def exclamation_marks_are_dropped(exchange: Exchange, _pair: Pair) -> bool:
    named = [value for key, value in exchange.request.query if key.startswith(("required", "root_required"))]
    return any("!!" in value for value in named) and exchange.stead.status == 400


def trait_is_required_and_forbidden(exchange: Exchange, _pair: Pair) -> bool:
    """D6: nobody is listed; or an unknown trait is told, or a filter that is looked at later."""
    if exchange.request.route != "GET /resource_providers" or exchange.stead.status != 400:
        return False
    conflict = b"Conflicting required and forbidden traits found in the following traits keys: required: "
    listed = exchange.released.status == 200 and exchange.released.json == {"resource_providers": []}
    return conflict in exchange.stead.body and (listed or b"No such trait" in exchange.released.body)


def both_found(exchange: Exchange) -> bool:
    return exchange.request.route == CANDIDATES and exchange.stead.status == exchange.released.status == 200


def classes_of(request: Request) -> dict[str, set[str]]:
    """The classes each group of a candidates request asks for, by suffix."""
    return {
        key.removeprefix("resources"): {element.partition(":")[0] for element in value.split(",")}
        for key, value in request.query
        if key.startswith("resources")
    }


def a_share_below_a_root(exchange: Exchange, pair: Pair) -> bool:
    """D3: 500 where a provider that is no root shares what the unsuffixed group asks for."""
    if not failed(exchange) or exchange.request.route != CANDIDATES or "" not in classes_of(exchange.request):
        return False
    shares = _listed(pair, ("required", SHARES))
    return any(one["parent_provider_uuid"] is not None for one in shares)


def amounts_are_added_twice(exchange: Exchange, _pair: Pair) -> bool:
    """D2: a class asked for with and without a suffix, not under ``group_policy=none``."""
    if not both_found(exchange) or exchange.request.values("group_policy")[:1] == ["none"]:
        return False
    classes = classes_of(exchange.request)
    unsuffixed = classes.pop("", set())
    return any(unsuffixed & suffixed for suffixed in classes.values())


def anchors_are_lost(exchange: Exchange, pair: Pair) -> bool:
    """D1: of candidates whose unsuffixed group is served by shares alone some are missing."""
    request = exchange.request
    groups = {
        re.sub("^(resources|required|member_of|in_tree)", "", key) for key, _ in request.query if key[:1] in "rmi"
    }
    if not both_found(exchange) or "" not in classes_of(request) or len(groups) < 2:
        return False
    ours, theirs = _unlimited(exchange, pair)
    found, missing = _candidates(ours), _candidates(ours)
    missing.subtract(_candidates(theirs))
    if not all(number >= 0 for number in missing.values()):
        return False
    shares = {one["uuid"] for one in _listed(pair, ("required", SHARES))}
    unsuffixed = classes_of(request)[""]
    lost = [one for one in ours.json["allocation_requests"] if missing[canonical(one)] > 0]
    return bool(found) and all(_may_be_served_by(shares, one, unsuffixed) for one in lost)


def _may_be_served_by(shares: set[str], candidate: Any, classes: set[str]) -> bool:
    """Can all of *classes* in *candidate* come from *shares*?"""
    allocations = candidate["allocations"]
    if isinstance(allocations, list):
        allocations = {one["resource_provider"]["uuid"]: one for one in allocations}
    if "mappings" in candidate:
        return set(candidate["mappings"][""]) <= shares
    return classes <= {name for uuid in shares & set(allocations) for name in allocations[uuid]["resources"]}


def limit_leaves_others(exchange: Exchange, pair: Pair) -> bool:
    """As many candidates as asked for, from the same whole."""
    request = exchange.request
    if not both_found(exchange) or not request.values("limit"):
        return False
    ours, theirs = _unlimited(exchange, pair)
    whole = compare(request.without("limit"), ours, theirs)
    if whole.facets and not names_of(whole, pair):
        return False
    limit = int(request.values("limit")[0])
    return all(
        sum(_candidates(some).values()) == min(limit, sum(_candidates(every).values()))
        and _candidates(some) <= _candidates(every)
        for some, every in ((exchange.stead, ours), (exchange.released, theirs))
    )


def _unlimited(exchange: Exchange, pair: Pair) -> tuple[Answer, Answer]:
    request = exchange.request.without("limit")
    if request == exchange.request:
        return exchange.stead, exchange.released
    return pair.stead.ask(request), pair.released.ask(request)


def _candidates(answer: Answer) -> Counter[Any]:
    return Counter(canonical(one) for one in answer.json["allocation_requests"])


def _listed(pair: Pair, *query: tuple[str, str]) -> list[Any]:
    return list(pair.stead.ask(Request("GET", "/resource_providers", query=query)).resource_providers)


BODY = frozenset({"body"})
DETAIL = frozenset({"detail"})
ANYTHING: frozenset[str] = frozenset()

KNOWN = [
    Known("Inventory keys that are no class names", ANYTHING, inventory_key_is_no_class),
    Known("A repeated limit that begins with a word", ANYTHING, limit_begins_with_a_word),
    Known("Two exclamation marks", ANYTHING, exclamation_marks_are_dropped),
    Known("A trait both required and forbidden (D6)", ANYTHING, trait_is_required_and_forbidden),
    Known("A share below a root (D3)", ANYTHING, a_share_below_a_root),
    Known("Amounts added twice (D2)", BODY, amounts_are_added_twice),
    Known("Lost anchors (D1)", BODY, anchors_are_lost),
    Known("Which candidates a limit leaves", BODY, limit_leaves_others),
    Known("A whole number as allocation ratio", BODY, numbers_are_echoed),
    Known("Vary on errors", frozenset({"vary"}), vary_is_missing),
    Known("Content-Type of HEAD", frozenset({"content-type"}), head_names_no_type),
    Known("The form of a 401", frozenset({"content-type", "detail"}), refusal_of_a_stranger),
    Known("Last-Modified of a renamed provider", frozenset({"last-modified"}), rename_tells_no_time),
    Known("An empty provider name", DETAIL, name_is_empty),
    Known("Words of a refusal", DETAIL, wording_differs),
    Known("Classes named in a refusal", DETAIL, classes_given_up_are_counted),
]
