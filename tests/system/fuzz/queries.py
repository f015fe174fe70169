"""The grammar of query strings: parameters of all microversions, mostly well-formed, and what spoils them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.system.fuzz.words import (
    AGGREGATES,
    CLASSES,
    FLAVORS,
    NAMES,
    OWNERS,
    PROVIDERS,
    SUFFIXES,
    TEXTS,
    TRAITS,
    TYPES,
    mostly,
    one_in,
    spelled,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

Pairs = list[tuple[str, str]]

AMOUNTS = ["1", "1", "2", "4", "8"]
ODD_AMOUNTS = [
    "0", "-1", "-0", "+1", " 1 ", "1_0", "1.0", "1e3", "0x1", "", "x", "1:1", "2147483648", "9223372036854775807",
    "9223372036854775808", "9" * 400, "9" * 5000, "-" + "9" * 5000, "١", "²", "1\0", "00000000000000000001",
]  # fmt: skip
ENCODED = [
    "%", "%0", "%zz", "%00", "%FF", "%C0%AF", "%ED%A0%80", "%C3", "%F4%90%80%80", "%u0041", "%25", "%2", "+", "%2B",
    "%26",
    "%3D", "%0a", "%0d%0a", "\xe9", "\xc3\xa9", "%EF%BB%BF", ";", "#", "?", "&", "=", "==", "&&", "%20", " ", "\t",
    "\x00",
    "[", "{", "\\", '"', "<", "%E2%80%A8",
]  # fmt: skip
"""What a query may have in it as it stands on the wire; bytes in the guise of Latin-1."""


def amounts(rng: Random) -> str:
    some = rng.choices([1, 2, 3, 0, 40], [60, 25, 10, 2, 1])[0]
    listed = [
        f"{mostly(rng, CLASSES, ['CUSTOM_NOBODY', *TEXTS], 30)}:{mostly(rng, AMOUNTS, ODD_AMOUNTS, 25)}"
        for _ in range(some)
    ]
    return mostly(rng, [","], [",,", ";", " , "], 60).join(listed)


def names(rng: Random) -> str:
    """Traits as ``required`` lists them."""
    some = rng.choices([1, 2, 3, 0, 30], [60, 25, 10, 2, 1])[0]
    listed = [
        mostly(rng, ["", "", "", "!"], ["!!", "in:", " ", "!in:"], 30)
        + mostly(rng, TRAITS, ["CUSTOM_NOBODY", *TEXTS], 30)
        for _ in range(some)
    ]
    return mostly(rng, ["", "", ""], ["in:", "!in:", "in:in:", "IN:"], 5) + ",".join(listed)


def groups(rng: Random) -> str:
    """Aggregates as ``member_of`` lists them."""
    some = rng.choices([1, 2, 3, 0, 30], [70, 20, 10, 2, 1])[0]
    listed = [mostly(rng, [spelled(rng, rng.choice(AGGREGATES))], TEXTS, 30) for _ in range(some)]
    prefix = "in:" if some > 1 else ""
    return mostly(rng, [prefix, prefix, f"!{prefix}"], ["!!", "in:!", "!in:", ""], 15) + ",".join(listed)


def tree(rng: Random) -> str:
    return mostly(rng, [spelled(rng, rng.choice(PROVIDERS))], TEXTS, 15)


def reference(rng: Random) -> str:
    """A provider by its uuid or by its name."""
    return f"name:{mostly(rng, NAMES, TEXTS, 15)}" if one_in(rng, 3) else tree(rng)


def subtree(rng: Random) -> str:
    return ",".join(mostly(rng, SUFFIXES, TEXTS, 30) for _ in range(rng.randint(1, 4)))


def one_of(*usual: str) -> Callable[[Random], str]:
    return lambda rng: mostly(rng, usual, TEXTS, 12)


OF_GROUP: dict[str, Callable[[Random], str]] = {
    "resources": amounts,
    "required": names,
    "member_of": groups,
    "in_tree": reference,
    "in_subtree": reference,
}


def order(rng: Random) -> str:
    """A value of ``order_by``."""
    if one_in(rng, 3):
        return rng.choice(["pack", "spread", "random", "", "best"])
    said = rng.choice([["asc", "desc"], ["1", "-0.5", "1e3", "0"]])
    return ",".join(f"{mostly(rng, CLASSES, TEXTS, 30)}:{rng.choice(said)}" for _ in range(rng.randint(1, 3)))


PAGE = one_of("1", "2", "1000", "0", "9" * 30, "9" * 5000, "1\n", "-1")

LISTS: dict[str, dict[str, Callable[[Random], str]]] = {
    "/resource_providers": {
        "name": one_of(*NAMES),
        "uuid": tree,
        "member_of": groups,
        "resources": amounts,
        "in_tree": reference,
        "in_subtree": reference,
        "required": names,
        "limit": PAGE,
        "marker": tree,
    },
    "/traits": {
        "name": one_of("in:CUSTOM_FUZZ_A,X", "startswith:CUSTOM_", "startswith:%", "startswith:", "in:", "x:y", "HW"),
        "associated": one_of("true", "false", "TRUE", "False"),
    },
    "/usages": {
        "project_id": one_of(*OWNERS),
        "user_id": one_of(*OWNERS),
        "consumer_type": one_of(*TYPES, "all", "unknown", "ALL", "allx"),
    },
    "/allocation_candidates": OF_GROUP
    | {
        "limit": one_of("1", "2", "10", "1000", "0", "9" * 30, "9" * 5000, "1\n", "01", "-1"),
        "group_policy": one_of("none", "isolate"),
        "root_required": names,
        "same_subtree": subtree,
        "root_member_of": groups,
        "isolate": subtree,
        "can_split": lambda rng: ",".join(mostly(rng, CLASSES, TEXTS, 30) for _ in range(rng.randint(1, 3))),
        "order_by": order,
    },
    "/consumers": {
        "project_id": one_of(*OWNERS),
        "user_id": one_of(*OWNERS),
        "consumer_type": one_of(*TYPES, "unknown", "all"),
        "provider": reference,
        "in_tree": reference,
        "totals": one_of("true", "false"),
        "limit": PAGE,
        "marker": tree,
    },
    "/provider_trees": {
        "in_tree": reference,
        "name": one_of(*NAMES, "*", "*a*", "a**b*", "**", "*" * 500),
        "required": names,
        "member_of": groups,
        "resources": amounts,
        "root_required": names,
        "root_member_of": groups,
        "fields": one_of("uuid", "name,usages", "inventories,traits,aggregates", "uuid,uuid", "name,", ""),
        "depth": one_of("0", "1", "9" * 5000, "01", "-1", "1\n"),
        "totals": one_of("true", "false", "TRUE", ""),
        "limit": PAGE,
        "marker": tree,
    },
    "/changes": {"since": one_of("", "AQ", "x" * 3000, "é"), "timeout": one_of("0", "00", "61", "x", "-1")},
}
"""The parameters of every route that has any, with a maker of values."""
LISTS["/allocation_candidates/explain"] = LISTS["/allocation_candidates"]
LISTS["/allocation_candidates"]["flavor"] = one_of(*FLAVORS)
LISTS["/flavors"] = {"headroom": one_of("true", "false", "x", ""), "limit": PAGE, "marker": one_of(*FLAVORS, "é", "")}
LISTS["/headroom"] = LISTS["/allocation_candidates"] | {"marker": tree}
OF_ADVICE = {
    "make_room_for": one_of("1", "2", "1000", "0", "1001", "9" * 5000, "1\n"),
    "same_traits": one_of("true", "false", "TRUE"),
    "same_aggregates": one_of("true", "false", ""),
}
LISTS["/advice"] = LISTS["/allocation_candidates"] | OF_ADVICE

OWN = ("root_member_of", "isolate", "can_split", "order_by")
"""Keys of Stead's own that stand for the whole request."""

MOST_GROUPS = 3000


def query(rng: Random, path: str) -> str:
    """A query string for *path*, as it stands on the wire."""
    if path.startswith(("/allocation_candidates", "/headroom", "/advice")):
        pairs = many_groups(rng) if one_in(rng, 400) else of_flavor(rng) if one_in(rng, 10) else candidates(rng)
        if path == "/headroom" and one_in(rng, 6):
            pairs = of_mix(rng)
        if path == "/advice":
            pairs += [(key, of(rng)) for key, of in OF_ADVICE.items() if key == "make_room_for" or one_in(rng, 6)]
    elif path in LISTS:
        table = LISTS[path]
        pairs = [(key, table[key](rng)) for key in rng.sample(list(table), rng.randint(0, min(3, len(table))))]
        if path == "/usages" and not one_in(rng, 8):
            pairs.append(("project_id", rng.choice(OWNERS)))
    else:
        pairs = [("x", rng.choice(TEXTS))] if one_in(rng, 5) else []
    if one_in(rng, 8):
        spoil(rng, pairs)
    written = "&".join(f"{encoded(rng, key)}={encoded(rng, value)}" for key, value in pairs)
    return scratched(rng, written) if one_in(rng, 8) else written


def candidates(rng: Random) -> Pairs:
    """Some groups, with what the whole request may have."""
    suffixes = rng.sample(SUFFIXES, rng.choices([0, 1, 2, 3, 5], [40, 20, 20, 10, 4])[0])
    pairs: Pairs = []
    is_own = one_in(rng, 3)
    for suffix in ["", *suffixes] if one_in(rng, 3) or not suffixes else suffixes:
        resourceless = suffix != "" and one_in(rng, 8)
        if not resourceless:
            pairs.append((f"resources{suffix}", amounts(rng)))
        for key in ("required", "member_of", "in_tree", *(["in_subtree"] if is_own else [])):
            if one_in(rng, 1 if resourceless and key == "required" else 6):
                pairs.append((f"{key}{suffix}", OF_GROUP[key](rng)))
    if len(suffixes) > 1 and not one_in(rng, 10):
        pairs.append(("group_policy", rng.choice(["none", "isolate"])))
    if suffixes and one_in(rng, 4):
        sign = rng.choice(["", ",!"]) if is_own and len(suffixes) > 1 else ""
        some = rng.sample(suffixes, rng.randint(1 + bool(sign), len(suffixes)))
        pairs.append(("same_subtree", some[0] + "".join(f"{sign or ','}{suffix}" for suffix in some[1:])))
    for key in ("root_required", "limit", "same_subtree", "group_policy", *(OWN if is_own else ())):
        if one_in(rng, 12):
            pairs.append((key, LISTS["/allocation_candidates"][key](rng)))
    if one_in(rng, 3):
        pairs.append(("limit", str(rng.choice([1, 5, 100]))))
    return pairs


def of_mix(rng: Random) -> Pairs:
    """Several flavors with weights, some of which nobody accepts, perhaps restricted further."""
    weight = one_of("1", "3", "100", "101", "0", "-1", "9" * 5000, "", "1.5", "١")
    parts = [f"{rng.choice(FLAVORS)}:{weight(rng)}" for _ in range(rng.randint(1, 3))]
    return [("mix", ",".join(parts)), *of_flavor(rng)[1:]]


def of_flavor(rng: Random) -> Pairs:
    """A flavor, perhaps restricted further."""
    more = [(key, OF_GROUP[key](rng)) for key in ("required", "member_of", "in_tree") if one_in(rng, 6)]
    return [("flavor", LISTS["/allocation_candidates"]["flavor"](rng)), *more]


def many_groups(rng: Random) -> Pairs:
    """Hundreds or thousands of groups, around the limits on their number and on the query's length."""
    number = rng.choice([100, 1000, 2000, MOST_GROUPS - 1, MOST_GROUPS, MOST_GROUPS + 1, 4000])
    name, amount = rng.choice(CLASSES), rng.choice(["1", "1", "100000"])
    pairs = [(f"resources{index}", f"{name}:{amount}") for index in range(1, number + 1)]
    pairs.append(("group_policy", rng.choice(["none", "isolate"])))
    pairs.append(("limit", "10"))
    if one_in(rng, 3):
        rng.shuffle(pairs)
    return pairs


def spoil(rng: Random, pairs: Pairs) -> None:
    """Repeat, drop, rename, reorder or add pairs; sometimes many."""
    match rng.randrange(6):
        case 0 if pairs:
            pairs.append(rng.choice(pairs))
        case 1 if pairs:
            pairs.pop(rng.randrange(len(pairs)))
        case 2 if pairs:
            at = rng.randrange(len(pairs))
            key, value = pairs[at]
            strange = [
                key.upper(),
                f"{key}0",
                f"{key}_",
                f" {key}",
                f"{key}[]",
                key[:-1],
                key * 2,
                f"{key}\0",
                f"{key}é",
            ]
            pairs[at] = (rng.choice(strange), value)
        case 3:
            rng.shuffle(pairs)
        case 4 if pairs:
            pairs += [rng.choice(pairs)] * rng.choice([2, 10, 500])
        case _:
            every = [key for table in LISTS.values() for key in table]
            pairs.append((rng.choice([*every, "x", "", "colour"]), rng.choice(TEXTS)))


def encoded(rng: Random, text: str) -> str:
    """*text* on the wire, in one of the ways there are to write it."""
    match rng.randrange(20):
        case 0:
            return "".join(f"%{byte:02x}" for byte in text[:500].encode())
        case 1:
            return text.encode().decode("latin-1")
        case 2:
            return quote(text, safe="").replace("%20", "+")
        case _:
            return quote(text, safe=":,!{}")


def scratched(rng: Random, written: str) -> str:
    """*written* with something cut out of it or put into it."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randint(0, len(written))
        if one_in(rng, 3):
            written = written[:at] + written[at + rng.choice([1, 2, 10]) :]
        else:
            written = written[:at] + rng.choice(ENCODED) + written[at:]
    return written
