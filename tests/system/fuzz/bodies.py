"""The grammar of bodies: for each route one that it would accept, what spoils a value, and what spoils its text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.system.fuzz.queries import query
from tests.system.fuzz.words import (
    AGGREGATES,
    CLASSES,
    CONSUMERS,
    FLAVORS,
    MAX_INT,
    NAMES,
    NUMBERS,
    OTHERS,
    OWNERS,
    PROVIDERS,
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

Json = Any


class Token(NamedTuple):
    """Text that stands in a body as it is."""

    text: str


class Twice(NamedTuple):
    """An object that has one of its keys twice."""

    members: dict[str, Json]
    key: str
    other: Json


TOKENS = [
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1E+2", "1.0000000000000000000000001", "01", "-", "0x1", "+1",
    ".5", "9" * 400,
    "9" * 5000, '"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"\\x"', "'x'", "undefined", "", "//", "[1,]", '{"a":1,}',
    "[" * 2000, "[" * 2000 + "]" * 2000, '{"a":' * 1100 + "1" + "}" * 1100, '"\n"', '"\t"', "1 2", "\ufeff",
]  # fmt: skip


class Route(NamedTuple):
    """A method and a path with a body that would do, but for chance and what the site has by then."""

    method: str
    path: str
    body: Json


def valid(rng: Random, minor: int, generation: Callable[[str], int | None]) -> Route:
    """A write that may well succeed at microversion 1.*minor*."""
    provider, consumer = rng.choice(PROVIDERS), rng.choice(CONSUMERS)
    at = f"/resource_providers/{provider}"
    choices: list[Callable[[], Route]] = [
        lambda: Route("POST", "/resource_providers", new_provider(rng, minor)),
        lambda: Route("PUT", at, renamed(rng, minor)),
        lambda: Route("POST", f"{at}/inventories", {"resource_class": rng.choice(CLASSES), **record(rng)}),
        lambda: Route("PUT", f"{at}/inventories", inventories(rng, generation(provider))),
        lambda: Route(
            "PUT",
            f"{at}/inventories/{rng.choice(CLASSES)}",
            {"resource_provider_generation": generation(provider), **record(rng)},
        ),
        lambda: Route("PUT", f"{at}/aggregates", aggregates(rng, minor, generation(provider))),
        lambda: Route(
            "PUT",
            f"{at}/traits",
            {
                "resource_provider_generation": generation(provider),
                "traits": rng.sample(TRAITS, rng.randint(0, 3)),
            },
        ),
        lambda: Route("POST", "/resource_classes", {"name": rng.choice([CLASSES[-1], "CUSTOM_FUZZ_Z"])}),
        lambda: Route(
            "PUT", "/resource_classes/CUSTOM_FUZZ_Z", {"name": rng.choice(["CUSTOM_FUZZ_Z", "CUSTOM_FUZZ_Q"])}
        ),
        lambda: Route("PUT", f"/allocations/{consumer}", claim(rng, minor, generation(consumer))),
        lambda: Route("PUT", f"/allocations/{consumer}", claim(rng, minor, generation(consumer))),
        lambda: Route(
            "POST",
            "/allocations",
            {uuid: claim(rng, max(minor, 12), generation(uuid)) for uuid in rng.sample(CONSUMERS, rng.randint(1, 3))},
        ),
        lambda: Route("PATCH", f"/provider_trees/{provider}", state(rng)),
        lambda: Route("POST", "/claims", claims(rng, generation)),
        lambda: Route("POST", "/claims", claims(rng, generation)),
        lambda: Route("PUT", "/provider_trees", trees(rng, generation)),
        lambda: Route("PUT", "/provider_trees", trees(rng, generation)),
        lambda: Route("PUT", f"/flavors/{rng.choice(FLAVORS)}", {"query": some_query(rng), "description": "one"}),
        lambda: Route("POST", "/whatif", what_if(rng)),
        lambda: Route("POST", "/whatif", what_if(rng)),
        lambda: Route(
            "POST",
            "/reshaper",
            {
                "inventories": {
                    uuid: inventories(rng, generation(uuid)) for uuid in rng.sample(PROVIDERS, rng.randint(1, 2))
                },
                "allocations": {
                    uuid: claim(rng, max(minor, 28), generation(uuid))
                    for uuid in rng.sample(CONSUMERS, rng.randint(0, 2))
                },
            },
        ),
    ]
    return rng.choice(choices)()


def state(rng: Random) -> Json:
    """Most providers stay enabled, or else no claim would be granted."""
    if not one_in(rng, 6):
        return {"disabled": None}
    until = mostly(rng, [None, "2124-02-29T12:00:00Z"], ["", "2020-01-01T00:00:00Z", "2124-02-29", "x"], 3)
    return {"disabled": {"reason": mostly(rng, ["broken fan"], NAMES, 3), "until": until}}


def new_provider(rng: Random, minor: int) -> Json:
    body = {"name": mostly(rng, [f"host{rng.randrange(10)}"], NAMES, 3), "uuid": spelled(rng, rng.choice(PROVIDERS))}
    if minor >= 14 and one_in(rng, 2):
        body["parent_provider_uuid"] = rng.choice(PROVIDERS)
    return body


def renamed(rng: Random, minor: int) -> Json:
    body: Json = {"name": mostly(rng, [f"host{rng.randrange(10)}"], NAMES, 3)}
    if minor >= 14 and one_in(rng, 2):
        body["parent_provider_uuid"] = rng.choice([*PROVIDERS, None])
    return body


def record(rng: Random) -> dict[str, Json]:
    """An inventory."""
    full: dict[str, Json] = {
        "reserved": rng.choice([0, 0, 1, 5]),
        "min_unit": rng.choice([1, 1, 2]),
        "max_unit": rng.choice([1, 8, MAX_INT]),
        "step_size": rng.choice([1, 1, 2]),
        "allocation_ratio": rng.choice([1, 1.0, 0.5, 16.0, 1e-30, 3.4e38, 0, -1.0]),
    }
    kept = {name: full[name] for name in full if one_in(rng, 3)}
    return {"total": rng.choice([8, 16, 1000, MAX_INT]), **kept}


def inventories(rng: Random, generation: int | None) -> Json:
    held = {name: record(rng) for name in rng.sample(CLASSES, rng.randint(0, 3))}
    return {"resource_provider_generation": generation or 0, "inventories": held}


def aggregates(rng: Random, minor: int, generation: int | None) -> Json:
    some = [spelled(rng, uuid) for uuid in rng.sample(AGGREGATES, rng.randint(0, 3))]
    return some if minor < 19 else {"aggregates": some, "resource_provider_generation": generation}


def claims(rng: Random, generation: Callable[[str], int | None]) -> Json:
    """What some consumers shall hold, wherever there is a place for it."""
    wanted = [
        {
            "consumer_uuid": spelled(rng, uuid),
            "query": some_query(rng),
            "project_id": rng.choice(OWNERS),
            "user_id": rng.choice(OWNERS),
            "consumer_type": rng.choice(TYPES),
            "consumer_generation": generation(uuid),
        }
        for uuid in rng.sample(CONSUMERS, rng.randint(1, 3))
    ]
    return {"claims": wanted, **({"distinct_roots": True} if one_in(rng, 3) else {})}


def some_query(rng: Random) -> str:
    """A query in a body, mostly of one class."""
    return mostly(rng, [f"resources={rng.choice(CLASSES[:4])}:1"], [query(rng, "/allocation_candidates")], 3)


def what_if(rng: Random) -> Json:
    """Planned changes, each of a kind, and questions."""
    kinds: dict[str, Json] = {
        "drain": {"same_traits": one_in(rng, 3), "same_aggregates": one_in(rng, 3)},
        "disable": {},
        "copy": {"count": rng.choice([1, 2, 100])},
        "set_inventory": {"resource_class": rng.choice(CLASSES), **record(rng)},
        "remove_inventory": {"resource_class": rng.choice(CLASSES)},
        "add_trait": {"trait": rng.choice(TRAITS)},
        "remove_trait": {"trait": rng.choice(TRAITS)},
        "delete_aggregate": {"aggregate": rng.choice(AGGREGATES)},
    }
    changes = []
    for kind in rng.choices(list(kinds), k=rng.choice([0, 1, 1, 2, 3])):
        provider = {} if kind == "delete_aggregate" else {"provider": rng.choice(PROVIDERS)}
        changes.append({"change": kind, **provider, **kinds[kind]})
    questions = rng.sample(["headroom", "candidates", "explain"], rng.randint(0, 2))
    named = [f"flavor={rng.choice(FLAVORS)}"]
    asked = {question: mostly(rng, [some_query(rng)], named, 4) for question in questions}
    return {"changes": changes, "ask": {**asked, "totals": one_in(rng, 2)}}


def trees(rng: Random, generation: Callable[[str], int | None]) -> Json:
    """A document of provider trees."""
    providers = [
        kept_fields(
            rng,
            {
                "uuid": spelled(rng, uuid),
                "name": mostly(rng, [f"host{rng.randrange(10)}"], NAMES, 3),
                "parent_provider_uuid": rng.choice([None, None, *PROVIDERS, f"name:host{rng.randrange(10)}"]),
                "generation": generation(uuid),
                "inventories": {name: record(rng) for name in rng.sample(CLASSES, rng.randint(0, 3))},
                "traits": rng.sample(TRAITS, rng.randint(0, 3)),
                "aggregates": rng.sample(AGGREGATES, rng.randint(0, 3)),
            },
        )
        for uuid in rng.sample(PROVIDERS, rng.randint(1, 3))
    ]
    options = ("prune", "dry_run", "merge", "keep_used", "allow_overcommit", "create_names")
    return {
        "provider_trees": [{"providers": providers}, {"root_provider_uuid": rng.choice(PROVIDERS), "providers": []}],
        **{name: rng.random() < 0.5 for name in options if one_in(rng, 2)},
    }


def kept_fields(rng: Random, record: dict[str, Json]) -> dict[str, Json]:
    """Most of the fields, but for those that are None and must not be."""
    kept = {name: value for name, value in record.items() if not one_in(rng, 4)}
    return {name: value for name, value in kept.items() if value is not None or name == "parent_provider_uuid"}


def claim(rng: Random, minor: int, generation: int | None) -> Json:
    """What one consumer shall hold, in the form of the microversion."""
    held = {
        uuid: {"resources": {name: rng.choice([1, 1, 2, 4]) for name in rng.sample(CLASSES[:4], rng.randint(1, 2))}}
        for uuid in rng.sample(PROVIDERS[:8], rng.choice([1, 1, 1, 2, 0]))
    }
    body: Json = {"allocations": held}
    if minor < 12:
        body["allocations"] = [{"resource_provider": {"uuid": uuid}, **of} for uuid, of in held.items()]
    if minor >= 8:
        body |= {"project_id": rng.choice(OWNERS), "user_id": rng.choice(OWNERS)}
    if minor >= 28:
        body["consumer_generation"] = generation
    if minor >= 34 and one_in(rng, 4):
        body["mappings"] = {"": [rng.choice(PROVIDERS)]}
    if minor >= 38:
        body["consumer_type"] = rng.choice(TYPES)
    return body


def spoiled(rng: Random, body: Json) -> Json:
    """*body* with one value or one key that is not what it was."""
    if not isinstance(body, (dict, list)) or not body or one_in(rng, 6):
        return odd(rng, body)
    if isinstance(body, list):
        return spoiled_list(rng, body)
    key = rng.choice(list(body))
    match rng.randrange(10):
        case 0:
            return {name: value for name, value in body.items() if name != key}
        case 1:
            strange = rng.choice([spelled(rng, key), key.upper(), key.lower(), f"{key}\n", f" {key}", *TEXTS])
            return {(strange if name == key else name): value for name, value in body.items()}
        case 2:
            return {**body, rng.choice([*TEXTS, *PROVIDERS, *CONSUMERS, *CLASSES]): body[key]}
        case 3:
            return Twice(body, key, odd(rng, body[key]))
        case 4 if one_in(rng, 10):
            return {**body, **{f"CUSTOM_{number}": body[key] for number in range(300)}}
        case _:
            return {**body, key: spoiled(rng, body[key])}


def spoiled_list(rng: Random, body: list[Json]) -> Json:
    at = rng.randrange(len(body))
    match rng.randrange(6):
        case 0:
            return body[:at] + body[at + 1 :]
        case 1:
            return [*body, *body]
        case 2:
            return [*body, odd(rng, body[at])]
        case _:
            return [*body[:at], spoiled(rng, body[at]), *body[at + 1 :]]


def odd(rng: Random, instead_of: Json) -> Json:
    """A value that has no business here, more often than not of the right type."""
    match rng.randrange(8):
        case 0:
            return Token(rng.choice(TOKENS))
        case 1:
            return rng.choice(OTHERS)
        case 2:
            return [instead_of]
        case 3:
            return {"x": instead_of}
    if isinstance(instead_of, (int, float)):
        return rng.choice(NUMBERS)
    return rng.choice([*TEXTS, *NUMBERS])


def written(value: Json) -> str:
    """*value* as JSON, or as what its tokens make of it."""
    match value:
        case Token():
            return value.text
        case Twice():
            first = written(value.members)
            return f"{first[:-1]}, {json.dumps(value.key)}: {written(value.other)}}}"
        case dict():
            return "{" + ", ".join(f"{json.dumps(str(key))}: {written(of)}" for key, of in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(written, value)) + "]"
        case _:
            return json.dumps(value)


def sent(rng: Random, value: Json) -> bytes:
    """The bytes of *value*; seldom of another encoding, cut off, or with something in them."""
    text = written(value)
    match rng.randrange(60):
        case 0:
            return text.encode("utf-16", "surrogatepass")
        case 1:
            return b"\xef\xbb\xbf" + text.encode("utf-8", "surrogatepass")
        case 2:
            return text.encode("utf-8", "surrogatepass")[: rng.randint(0, len(text))]
        case 3:
            at = rng.randint(0, len(text))
            junk = rng.choice([b"\0", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b",", b"}", b"{", b'"', b"\\", b"\n"])
            return text.encode("utf-8", "surrogatepass")[:at] + junk + text.encode("utf-8", "surrogatepass")[at:]
        case 4:
            return b""
        case 5:
            return text.encode("utf-32", "surrogatepass")
        case 6:
            return rng.choice([b" " * 5000, b"\n"]) + text.encode("utf-8", "surrogatepass") + b" \r\n\t"
        case 7:
            return text.encode() + text.encode()
        case _:
            return text.encode("utf-8", "surrogatepass")
