"""Requests that change something."""

from typing import Any

from hypothesis import strategies as st

from tests.system.differential.asking import Generation, Request
from tests.system.differential.words import (
    CUSTOM_CLASSES,
    CUSTOM_TRAITS,
    NOBODY,
    PROJECTS,
    PROVIDERS,
    TYPES,
    USERS,
    aggregates,
    classes,
    consumers,
    mostly_sound,
    once_in,
    provider_uuids,
    providers,
    rarely,
    slots,
    traits,
    versions,
)

off_by = st.sampled_from([0] * 20 + [1, -1])


def path_of(provider: str, *rest: str) -> str:
    return "/".join((f"/resource_providers/{provider}", *rest))


@st.composite
def inventories(draw: st.DrawFn) -> dict[str, Any]:
    """One inventory record, small enough to fill up."""
    record: dict[str, Any] = {"total": draw(st.sampled_from([8, 4, 16, 1, 2, 100, 2147483647]))}
    for key, values in (
        ("reserved", [0, 1, 2, 4, 8, 16, 101]),
        ("min_unit", [1, 2, 4]),
        ("max_unit", [2147483647, 4, 8, 1]),
        ("step_size", [1, 2, 3]),
        ("allocation_ratio", [1.0, 16.0, 1.5, 0.5, 0.29, 2, 0.0, -1.0]),
    ):
        if once_in(draw, 4):
            record[key] = draw(st.sampled_from(values))
    return record


roomy = st.fixed_dictionaries(
    {"total": st.sampled_from([8, 4, 16, 100])},
    optional={
        "allocation_ratio": st.sampled_from([1.0, 2.0, 1.5]),
        "step_size": st.sampled_from([1, 2]),
        "max_unit": st.sampled_from([8, 4]),
        "reserved": st.sampled_from([0, 1]),
    },
)


@st.composite
def site(draw: st.DrawFn) -> list[Request]:
    """A forest with inventories, traits and aggregates, to begin with."""
    asked = []
    for number in range(draw(st.sampled_from([1, 2, 3, 4, 4, 5, 5, 6]))):
        name = PROVIDERS[number]
        body: dict[str, Any] = {"uuid": f"<{name}>", "name": f"host-{number}"}
        if number and not once_in(draw, 3):
            body["parent_provider_uuid"] = f"<{PROVIDERS[draw(st.integers(0, number - 1))]}>"
        asked.append(Request("POST", "/resource_providers", body=body))
        held = draw(st.dictionaries(classes.filter(lambda held: held != "CUSTOM_RARE"), roomy, min_size=1, max_size=4))
        if not once_in(draw, 6):
            body = {"resource_provider_generation": Generation(name), "inventories": held}
            asked.append(Request("PUT", path_of(f"<{name}>", "inventories"), body=body))
        worn = draw(st.lists(traits.filter(lambda worn: worn != "CUSTOM_RARE"), unique=True, max_size=2))
        if worn:
            body = {"resource_provider_generation": Generation(name), "traits": worn}
            asked.append(Request("PUT", path_of(f"<{name}>", "traits"), body=body))
        joined = draw(st.lists(aggregates, unique=True, max_size=2))
        if joined:
            body = {"resource_provider_generation": Generation(name), "aggregates": [f"<{one}>" for one in joined]}
            asked.append(Request("PUT", path_of(f"<{name}>", "aggregates"), body=body))
    return asked


names = rarely(
    st.sampled_from(["", "x" * 200, "x" * 201, "Zürich ☃", "host 1", "<b>host</b>"]),
    st.integers(0, 8).map(lambda number: f"host-{number}"),
)


@st.composite
def create_provider(draw: st.DrawFn) -> Request:
    of = draw(slots)
    body: dict[str, Any] = {"name": draw(names)}
    if not once_in(draw, 4):
        body["uuid"] = draw(rarely(st.sampled_from([f"<{of}~>", f"<{of}^>", f"{{<{of}>}}"]), st.just(f"<{of}>"), 12))
    if draw(st.booleans()):
        body["parent_provider_uuid"] = draw(rarely(st.just(None), provider_uuids, 8))
    body = draw(mostly_sound(st.just(body)))
    return Request("POST", "/resource_providers", draw(versions(14)), body=body)


@st.composite
def update_provider(draw: st.DrawFn) -> Request:
    body: dict[str, Any] = {"name": draw(names)}
    if not once_in(draw, 3):
        body["parent_provider_uuid"] = draw(rarely(st.just(None), provider_uuids, 4))
    version = draw(versions(14))
    return Request("PUT", path_of(draw(provider_uuids)), version, body=draw(mostly_sound(st.just(body))))


@st.composite
def delete_provider(draw: st.DrawFn) -> Request:
    return Request("DELETE", path_of(draw(provider_uuids)), draw(versions()))


@st.composite
def replace_inventories(draw: st.DrawFn) -> Request:
    of = draw(providers)
    held = draw(st.dictionaries(classes, inventories(), max_size=3))
    body = {"resource_provider_generation": Generation(of, draw(off_by)), "inventories": held}
    version = draw(versions())
    return Request("PUT", path_of(f"<{of}>", "inventories"), version, body=draw(mostly_sound(st.just(body))))


@st.composite
def add_inventory(draw: st.DrawFn) -> Request:
    body = {"resource_class": draw(classes), **draw(inventories())}
    version = draw(versions())
    return Request(
        "POST", path_of(draw(provider_uuids), "inventories"), version, body=draw(mostly_sound(st.just(body)))
    )


@st.composite
def replace_inventory(draw: st.DrawFn) -> Request:
    of = draw(providers)
    body = {"resource_provider_generation": Generation(of, draw(off_by)), **draw(inventories())}
    path = path_of(f"<{of}>", "inventories", draw(rarely(st.just("CUSTOM_NOBODY"), classes)))
    return Request("PUT", path, draw(versions()), body=draw(mostly_sound(st.just(body))))


@st.composite
def delete_inventory(draw: st.DrawFn) -> Request:
    rest = draw(st.one_of(st.just(()), classes.map(lambda name: (name,))))
    return Request("DELETE", path_of(draw(provider_uuids), "inventories", *rest), draw(versions()))


@st.composite
def write_aggregates(draw: st.DrawFn) -> Request:
    of, version = draw(providers), draw(versions(1))
    joined = [f"<{one}>" for one in draw(st.lists(aggregates, unique=True, max_size=3))]
    body: Any = {"aggregates": joined, "resource_provider_generation": Generation(of, draw(off_by))}
    if (version < 19) != once_in(draw, 10):
        body = joined
    return Request("PUT", path_of(f"<{of}>", "aggregates"), version, body=draw(mostly_sound(st.just(body))))


@st.composite
def write_traits(draw: st.DrawFn) -> Request:
    of, version = draw(providers), draw(versions(6))
    if once_in(draw, 4):
        return Request("DELETE", path_of(f"<{of}>", "traits"), version)
    worn = draw(st.lists(rarely(st.just("CUSTOM_NOBODY"), traits, 20), max_size=3))
    body = {"traits": worn, "resource_provider_generation": Generation(of, draw(off_by))}
    return Request("PUT", path_of(f"<{of}>", "traits"), version, body=draw(mostly_sound(st.just(body))))


@st.composite
def write_trait(draw: st.DrawFn) -> Request:
    odd = st.sampled_from(["CUSTOM_", "VCPU", "CUSTOM_lamp", "HW_CPU_X86_VMX", "CUSTOM_" + "A" * 249, "CUSTOM_NOBODY"])
    name = draw(rarely(odd, st.sampled_from(CUSTOM_TRAITS), 5))
    return Request(draw(st.sampled_from(["PUT", "DELETE"])), f"/traits/{name}", draw(versions(6)))


@st.composite
def write_class(draw: st.DrawFn) -> Request:
    odd = st.sampled_from(["CUSTOM_", "VCPU", "CUSTOM_lamp", "DISK_GB", "CUSTOM_" + "A" * 249, "CUSTOM_NOBODY"])
    some = rarely(odd, st.sampled_from((*CUSTOM_CLASSES, "CUSTOM_BULB")), 5)
    method, version = draw(st.sampled_from(["PUT", "POST", "DELETE", "PUT"])), draw(versions(2))
    path = "/resource_classes" if method == "POST" else f"/resource_classes/{draw(some)}"
    body = None
    if method == "POST" or (method == "PUT" and version < 7):
        body = draw(mostly_sound(some.map(lambda name: {"name": name})))
    return Request(method, path, version, body=body)


amounts = st.sampled_from([1, 1, 1, 2, 2, 2, 4, 4, 3, 8, 101])
resources = st.dictionaries(rarely(st.just("CUSTOM_NOBODY"), classes, 30), amounts, min_size=1, max_size=2)


@st.composite
def holding(draw: st.DrawFn, consumer: str, version: int, *, may_be_empty: bool) -> dict[str, Any]:
    """What a consumer is to hold, in the dict form of *version*."""
    held = draw(st.dictionaries(provider_uuids, resources, min_size=0 if may_be_empty else 1, max_size=2))
    return draw(who(consumer, version, {uuid: {"resources": of} for uuid, of in held.items()}))


@st.composite
def who(draw: st.DrawFn, consumer: str, version: int, allocations: Any) -> dict[str, Any]:
    """*allocations*, and what else *version* wants to know of the consumer."""
    body: dict[str, Any] = {"allocations": allocations}
    if version >= 8:
        body |= {"project_id": draw(st.sampled_from(PROJECTS)), "user_id": draw(st.sampled_from(USERS))}
    if version >= 28:
        body["consumer_generation"] = Generation(consumer, draw(off_by))
    if version >= 34 and once_in(draw, 5):
        body["mappings"] = {draw(st.sampled_from(["", "1", "_A"])): ["<p0>"]}
    if version >= 38:
        body["consumer_type"] = draw(st.sampled_from(TYPES))
    return body


@st.composite
def claim_of(draw: st.DrawFn, consumer: str, held: dict[str, dict[str, int]], version: int) -> Request:
    """A PUT that gives *consumer* the amounts *held*, by provider and class, in the form of *version*."""
    allocations: Any = {uuid: {"resources": of} for uuid, of in held.items()}
    if version < 12:
        allocations = [{"resource_provider": {"uuid": uuid}, "resources": of} for uuid, of in held.items()]
    return Request(
        "PUT", f"/allocations/<{consumer}>", version, body=draw(who(consumer, version, allocations))
    )  # fmt: skip


@st.composite
def write_allocations(draw: st.DrawFn) -> Request:
    method = draw(st.sampled_from(["PUT", "POST"]))
    version = draw(versions(13 if method == "POST" else 0))
    of = draw(consumers)
    if method == "POST":
        several = draw(st.lists(consumers, min_size=1, max_size=3, unique=True))
        body: Any = {f"<{one}>": draw(holding(one, max(version, 13), may_be_empty=True)) for one in several}
        return Request("POST", "/allocations", version, body=draw(mostly_sound(st.just(body))))
    if version < 12:
        held = draw(st.lists(st.tuples(provider_uuids, resources), min_size=1, max_size=3))
        listed = [{"resource_provider": {"uuid": uuid}, "resources": amounts} for uuid, amounts in held]
        body = draw(who(of, version, listed))
    else:
        body = draw(holding(of, version, may_be_empty=version >= 28))
    odd = st.sampled_from(["/allocations/not-a-uuid", f"/allocations/<{of}~>"])
    path = draw(rarely(odd, st.just(f"/allocations/<{of}>"), 15))
    return Request("PUT", path, version, body=draw(mostly_sound(st.just(body))))


@st.composite
def release(draw: st.DrawFn) -> Request:
    return Request("DELETE", f"/allocations/<{draw(consumers)}>", draw(versions()))


@st.composite
def reshape(draw: st.DrawFn) -> Request:
    version = draw(versions(30))
    new = {}
    for one in draw(st.lists(providers, min_size=1, max_size=3, unique=True)):
        held = draw(st.dictionaries(classes, inventories(), max_size=3))
        new[f"<{one}>"] = {"resource_provider_generation": Generation(one, draw(off_by)), "inventories": held}
    if once_in(draw, 16):
        new[NOBODY] = {"resource_provider_generation": 0, "inventories": {}}
    moved = draw(st.lists(consumers, max_size=3, unique=True))
    allocations = {f"<{one}>": draw(holding(one, max(version, 30), may_be_empty=True)) for one in moved}
    body = {"inventories": new, "allocations": allocations}
    return Request("POST", "/reshaper", version, body=draw(mostly_sound(st.just(body))))
