"""Requests that only look: every GET, candidates and provider lists with all their parameters, and odd requests."""

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.system.differential.asking import Request
from tests.system.differential.words import (
    NOBODY,
    PROJECTS,
    TRAITS,
    TYPES,
    USERS,
    aggregates,
    classes,
    consumers,
    once_in,
    provider_uuids,
    rarely,
    traits,
    versions,
)

Pairs = list[tuple[str, str]]

amounts = st.sampled_from([1, 1, 1, 1, 2, 2, 2, 4, 3, 8])


@st.composite
def amount_values(draw: st.DrawFn, most: int = 3) -> str:
    number = draw(st.sampled_from([1, 1, most]))
    asked = draw(st.dictionaries(rarely(st.just("CUSTOM_NOBODY"), classes, 60), amounts, min_size=1, max_size=number))
    return ",".join(f"{name}:{amount}" for name, amount in asked.items())


odd_amounts = st.sampled_from(
    [
        "",
        "VCPU",
        "VCPU:1,",
        "VCPU:0",
        "VCPU:-1",
        "VCPU:x",
        "VCPU:1:2",
        " VCPU:1",
        "VCPU: 1",
        "VCPU:1,VCPU:2",
        ":1",
        "VCPU:",
    ]
)


@st.composite
def trait_values(draw: st.DrawFn, version: int) -> str:
    known = rarely(st.just("CUSTOM_NOBODY"), traits, 80)
    if version >= 39 and once_in(draw, 4):
        return "in:" + ",".join(draw(st.lists(known, min_size=1, max_size=3)))
    several = draw(st.lists(known, min_size=1, max_size=2, unique=True))
    forbids = version >= 22
    return ",".join(f"{'!' if forbids and once_in(draw, 3) else ''}{name}" for name in several)


odd_traits = st.sampled_from(
    ["", "!", "CUSTOM_GOLD,", ",", "!CUSTOM_GOLD", "in:CUSTOM_GOLD,CUSTOM_SSD", "in:", "in:CUSTOM_GOLD,!CUSTOM_SSD",
     " CUSTOM_GOLD , CUSTOM_SSD ", "CUSTOM_GOLD,!CUSTOM_GOLD", "!in:CUSTOM_GOLD", "in:CUSTOM_GOLD,", "!!CUSTOM_GOLD"]
)  # fmt: skip


@st.composite
def aggregate_values(draw: st.DrawFn, version: int) -> str:
    negative = "!" if version >= 32 and once_in(draw, 4) else ""
    some = rarely(st.just(NOBODY), aggregates.map(lambda name: f"<{name}>"), 20)
    if draw(st.booleans()):
        return f"{negative}{draw(some)}"
    return f"{negative}in:" + ",".join(draw(st.lists(some, min_size=1, max_size=2)))


odd_aggregates = st.sampled_from(
    ["", "in:", "<a0>,<a1>", "!<a0>", "!in:<a0>,<a1>", "x", "in:<a0>,x", "in:<a0>,!<a1>", "!!<a0>"]
)
odd_trees = st.sampled_from(["", "x", " <p0> ", NOBODY])


@st.composite
def group(draw: st.DrawFn, suffix: str, version: int, *, resourceless: bool) -> Pairs:
    """The parameters of one group, as *version* knows them."""
    pairs = []
    if not resourceless:
        pairs.append((f"resources{suffix}", draw(rarely(odd_amounts, amount_values(2 if suffix else 3), 80))))
    if version >= 17 and (resourceless or once_in(draw, 5)):
        pairs.append((f"required{suffix}", draw(rarely(odd_traits, trait_values(version), 40))))
        if once_in(draw, 6):
            pairs.append((f"required{suffix}", draw(trait_values(version))))
    if version >= 21 and once_in(draw, 5):
        pairs.append((f"member_of{suffix}", draw(rarely(odd_aggregates, aggregate_values(version), 40))))
        if once_in(draw, 6):
            pairs.append((f"member_of{suffix}", draw(aggregate_values(version))))
    if version >= 31 and once_in(draw, 8):
        pairs.append((f"in_tree{suffix}", draw(rarely(odd_trees, provider_uuids, 20))))
    return pairs


@dataclass(frozen=True)
class There:
    """A provider that exists, and what it has."""

    uuid: str
    classes: tuple[str, ...]
    traits: tuple[str, ...]
    aggregates: tuple[str, ...]


@st.composite
def group_of(draw: st.DrawFn, suffix: str, version: int, models: list[There]) -> Pairs:
    """A group that *models* might serve together, if there is room."""
    amounts_by_class: dict[str, int] = {}
    pairs: Pairs = []
    for model in models:
        for name in draw(st.lists(st.sampled_from(model.classes), min_size=1, max_size=2, unique=True)):
            amounts_by_class[name] = draw(st.sampled_from([1, 1, 2, 4]))
    pairs.append((f"resources{suffix}", ",".join(f"{name}:{amount}" for name, amount in amounts_by_class.items())))
    model = models[0]
    if version >= 17 and model.traits and once_in(draw, 4):
        pairs.append((f"required{suffix}", draw(st.sampled_from(model.traits))))
    elif version >= 22 and once_in(draw, 6):
        pairs.append((f"required{suffix}", f"!{draw(traits)}"))
    if version >= 21 and model.aggregates and once_in(draw, 4):
        pairs.append((f"member_of{suffix}", draw(st.sampled_from(model.aggregates))))
    elif version >= 32 and once_in(draw, 8):
        pairs.append((f"member_of{suffix}", f"!<{draw(aggregates)}>"))
    if version >= 31 and once_in(draw, 10):
        pairs.append((f"in_tree{suffix}", model.uuid))
    return pairs


@st.composite
def answerable_candidates(draw: st.DrawFn, there: list[There]) -> Request:
    """A query made of what is there, so that it often has answers. *there* has a class each."""
    version = draw(st.one_of(st.integers(29, 39), versions(10)).filter(lambda version: version >= 10))
    models = st.sampled_from(there)
    suffixes = ["1", "2", "3"][: draw(st.sampled_from([2, 0, 1, 3]))] if version >= 25 else []
    pairs: Pairs = []
    if not suffixes or draw(st.booleans()):
        pairs += draw(group_of("", version, draw(st.lists(models, min_size=1, max_size=2))))
    bare = []
    for suffix in suffixes:
        model = draw(models)
        if version >= 36 and model.traits and len(suffixes) > 1 and once_in(draw, 4):
            bare.append(suffix)
            pairs.append((f"required{suffix}", draw(st.sampled_from(model.traits))))
        else:
            pairs += draw(group_of(suffix, version, [model]))
    pairs += draw(request_wide(version, suffixes, bare))
    return Request("GET", "/allocation_candidates", version, tuple(pairs))


@st.composite
def candidates(draw: st.DrawFn) -> Request:
    version = draw(versions(10))
    pairs: Pairs = []
    suffixes: list[str] = []
    if version >= 25:
        some = ["1", "2", "3"] if version < 33 or once_in(draw, 2) else ["_A", "_b", "0"]
        suffixes = some[: draw(st.sampled_from([0, 0, 1, 2, 2, 3]))]
    if not suffixes or draw(st.booleans()):
        pairs += draw(group("", version, resourceless=False))
    if suffixes and once_in(draw, 40):
        pairs += draw(group("_x", version, resourceless=True))
    bare = []
    for suffix in suffixes:
        resourceless = version >= 36 and once_in(draw, 4)
        bare += [suffix] if resourceless else []
        pairs += draw(group(suffix, version, resourceless=resourceless))
    pairs += draw(request_wide(version, suffixes, bare))
    if once_in(draw, 40):
        pairs.append(
            draw(st.sampled_from([("limit", "x"), ("colour", "red"), ("resources01", "VCPU:1"), ("Limit", "1")]))
        )
    if once_in(draw, 10):
        pairs = draw(st.permutations(pairs))
    return Request("GET", "/allocation_candidates", version, tuple(pairs))


@st.composite
def request_wide(draw: st.DrawFn, version: int, suffixes: list[str], bare: list[str]) -> Pairs:
    pairs: Pairs = []
    if version >= 25 and (len(suffixes) > 1 or once_in(draw, 5)) and not once_in(draw, 40):
        pairs.append(("group_policy", draw(rarely(st.just("bogus"), st.sampled_from(["none", "isolate"]), 40))))
    if version >= 16 and once_in(draw, 6):
        pairs.append(
            ("limit", draw(rarely(st.sampled_from(["0", "-1", "x", ""]), st.sampled_from(["1", "2", "100"]), 20)))
        )
    if version >= 35 and once_in(draw, 6):
        pairs.append(("root_required", draw(rarely(odd_traits, trait_values(38), 20))))
        if once_in(draw, 30):
            pairs.append(("root_required", "CUSTOM_GOLD"))
    if version >= 36 and suffixes and (bare or once_in(draw, 4)):
        named = draw(st.lists(st.sampled_from(suffixes), unique=True, min_size=1))
        named += [suffix for suffix in bare if suffix not in named and not once_in(draw, 20)]
        pairs.append(("same_subtree", ",".join(named)))
        if once_in(draw, 20):
            pairs.append(("same_subtree", draw(st.sampled_from(["", "_nobody", "1,", "1,2"]))))
    return pairs


@st.composite
def provider_list(draw: st.DrawFn) -> Request:
    version, pairs = draw(versions()), []
    if once_in(draw, 5):
        pairs.append(("name", draw(st.sampled_from(["host-0", "host-1", "", "nobody"]))))
    if once_in(draw, 5):
        pairs.append(("uuid", draw(rarely(st.sampled_from(["x", ""]), provider_uuids))))
    if version >= 3 and once_in(draw, 3):
        pairs.append(("member_of", draw(rarely(odd_aggregates, aggregate_values(version)))))
        if once_in(draw, 5):
            pairs.append(("member_of", draw(aggregate_values(version))))
    if version >= 4 and once_in(draw, 3):
        pairs.append(("resources", draw(rarely(odd_amounts, amount_values()))))
    if version >= 14 and once_in(draw, 4):
        pairs.append(("in_tree", draw(rarely(odd_trees, provider_uuids))))
    if version >= 18 and once_in(draw, 2):
        pairs.append(("required", draw(rarely(odd_traits, trait_values(version)))))
        if once_in(draw, 4):
            pairs.append(("required", draw(trait_values(version))))
    if once_in(draw, 20):
        pairs.append(draw(st.sampled_from([("required", "CUSTOM_GOLD"), ("limit", "1"), ("in_tree", "<p0>")])))
    return Request("GET", "/resource_providers", version, tuple(pairs))


@st.composite
def usages(draw: st.DrawFn) -> Request:
    version = draw(versions(9))
    pairs = [
        ("project_id", draw(st.sampled_from([*PROJECTS, *PROJECTS, "nobody", "00000000-0000-0000-0000-000000000000"])))
    ]
    if once_in(draw, 3):
        pairs.append(("user_id", draw(st.sampled_from([*USERS, "nobody"]))))
    if version >= 38 and once_in(draw, 2):
        pairs.append(
            ("consumer_type", draw(st.sampled_from([*TYPES, "all", "unknown", "UNKNOWN", "allx", "instance", ""])))
        )
    if once_in(draw, 20):
        pairs = draw(st.sampled_from([[], [("user_id", "user-a")], [*pairs, ("colour", "red")], [("project_id", "")]]))
    return Request("GET", "/usages", version, tuple(pairs))


@st.composite
def trait_list(draw: st.DrawFn) -> Request:
    pairs = []
    if once_in(draw, 2):
        odd = st.sampled_from(["", "xx_y", "in:", "like:CUSTOM", "startswith:"])
        good = st.sampled_from(["startswith:CUSTOM_", "in:CUSTOM_GOLD,CUSTOM_NOBODY", f"in:{','.join(TRAITS)}"])
        pairs.append(("name", draw(rarely(odd, good, 5))))
    if once_in(draw, 2):
        pairs.append(("associated", draw(st.sampled_from(["true", "false", "True", "x", "", "true", "true"]))))
    if once_in(draw, 20):
        pairs.append(("colour", "red"))
    return Request("GET", "/traits", draw(versions(6)), tuple(pairs))


@st.composite
def look(draw: st.DrawFn) -> Request:
    of, consumer, one = draw(provider_uuids), draw(consumers), draw(rarely(st.just("CUSTOM_NOBODY"), classes))
    path, first = draw(
        st.sampled_from(
            [
                (f"/resource_providers/{of}", 0),
                (f"/resource_providers/{of}/inventories", 0),
                (f"/resource_providers/{of}/inventories/{one}", 0),
                (f"/resource_providers/{of}/usages", 0),
                (f"/resource_providers/{of}/aggregates", 1),
                (f"/resource_providers/{of}/allocations", 0),
                (f"/resource_providers/{of}/traits", 6),
                (f"/allocations/<{consumer}>", 0),
                (f"/allocations/<{consumer}>", 0),
                (f"/allocations/<{consumer}~>", 0),
                ("/resource_classes", 2),
                (f"/resource_classes/{one}", 2),
                (f"/traits/{draw(traits)}", 6),
                ("/", 0),
            ]
        )
    )
    return Request("GET", path, draw(versions(first)))


PATHS = (
    "/", "/resource_providers", "/resource_providers/<p0>", "/resource_providers/<p0>/inventories",
    "/resource_providers/<p0>/inventories/VCPU", "/resource_providers/<p0>/usages",
    "/resource_providers/<p0>/aggregates", "/resource_providers/<p0>/allocations", "/resource_providers/<p0>/traits",
    "/resource_classes", "/resource_classes/VCPU", "/traits", "/traits/CUSTOM_GOLD", "/allocations",
    "/allocations/<c0>", "/allocation_candidates", "/usages", "/reshaper", "/nowhere", "/resource_providers/",
    "/resource_providers/<p0>/nothing", "//", "/allocation_candidates/",
)  # fmt: skip
ACCEPTS = (
    None, "*/*", "", "application/json", "text/html", "text/plain", "application/xml", "application/json, text/html",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json;q=0.1", "application/*",
    "text/*", "application/json; charset=utf8", "nonsense",
)  # fmt: skip
ASKED_VERSIONS = (
    None, "placement 1.39", "placement latest", "placement 1.5", "PLACEMENT 1.5", "compute 2.5", "placement", "1.5",
    "placement 1.5, compute 2.1", "compute 2.1, placement 1.20", "placement 1.5,placement 1.6", "placement 0.5",
    "placement 1.40", "placement 2.0", "placement abc.def", "placement 1.2.3", "placement 1", "placement LATEST",
    "placement 1.05", "placement 1. 5", "placement 1.5,placement",
)  # fmt: skip
TYPES_OF_BODIES = (None, "application/json", "application/json; charset=utf-8", "text/plain", "", "Application/JSON")
ODD_BODIES = (None, b"", b"{", b"[]", b"{}", b"null", b'"x"', b"\xff", b'{"name": "x", "name": "host-7"}', b"1")


@st.composite
def odd(draw: st.DrawFn) -> Request:
    """Any method on any path, with odd headers and odd bodies."""
    method = draw(st.sampled_from(["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "HEAD", "GET"]))
    headers: list[tuple[str, str | None]] = []
    if once_in(draw, 2):
        headers.append(("Accept", draw(st.sampled_from(ACCEPTS))))
    if once_in(draw, 3):
        headers.append(("OpenStack-API-Version", draw(st.sampled_from(ASKED_VERSIONS))))
    if once_in(draw, 3):
        headers.append(("Content-Type", draw(st.sampled_from(TYPES_OF_BODIES))))
    if once_in(draw, 20):
        headers.append(("X-Auth-Token", draw(st.sampled_from([None, "nobody", "admin:project"]))))
    if once_in(draw, 20):
        headers.append(("X-Roles", draw(st.sampled_from([None, "reader", "service", "admin"]))))
    raw = draw(st.sampled_from(ODD_BODIES)) if method in ("PUT", "POST") else None
    path = draw(st.sampled_from(PATHS))
    return Request(method, path, draw(versions()), raw=raw, headers=tuple(headers))
